# Split-KV attention for one token: a program takes one query head and one of SPLITS slices of its keys, so small
# batches fill the GPU. Products stay elementwise, which wastes nothing when every head has its own KV head; loads of
# later blocks are pipelined. A second kernel joins the slices.
#! idea split KV slices with elementwise products
#! dtypes fp16 bf16
#! kernel grid=B*H*SPLITS block=32*NUM_WARPS smem=4*BLOCK_N+64+(NUM_STAGES>1)*NUM_STAGES*4*BLOCK_N*pow2(D) regs=42+5*BLOCK_N*pow2(D)/(64*NUM_WARPS) read=4*B*H*S*D once=4*B*HKV*S*D write=4*B*H*SPLITS*(D+2) inflight=max(1,NUM_STAGES-1)*BLOCK_N*D*4 ops=B*H*S*(pow2(D)*8+40) sfu=B*H*S*2 chain=cdiv(S,SPLITS*BLOCK_N)*(LAT/max(1,NUM_STAGES-1)+420)+LAT+300
#! kernel grid=B*H block=32*2 smem=0 regs=min(255,30+SPLITS*pow2(D)/64) read=4*B*H*SPLITS*(D+2) write=2*B*H*D inflight=4*SPLITS*D ops=B*H*SPLITS*(pow2(D)*4+60) sfu=B*H*SPLITS*64 chain=2*LATL2+400
import math

import torch
import triton
import triton.language as tl

#! param 16 32 64 128
BLOCK_N = 32
#! param 2 4 8 16 32
SPLITS = 8
#! param 2 4 8
NUM_WARPS = 4
#! param 1 2 3 4
NUM_STAGES = 2


@triton.jit
def split_kernel(q, k, v, part_o, part_m, part_l, H, HKV, S, scale, D: tl.constexpr, BLOCK_D: tl.constexpr,
                 BLOCK_N: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0)
    split = tl.program_id(1)
    #! fault kv_head_modulo wrong when HKV > 1 && HKV < H: pair = row // H * HKV + row % H % HKV
    pair = row // H * HKV + row % H // (H // HKV)
    dims = tl.arange(0, BLOCK_D)
    keys = tl.arange(0, BLOCK_N)
    live = dims < D
    x = tl.load(q + row.to(tl.int64) * D + dims, mask=live, other=0.0).to(tl.float32) * scale
    base = pair.to(tl.int64) * S * D
    chunk = tl.cdiv(S, SPLITS)
    begin = split * chunk
    #! fault chunk_end wrong when S >= 2: end = tl.minimum(begin + chunk, S - 1)
    #! fault end_paren compile: end = tl.minimum((begin + chunk, S)
    #! says end_paren: SyntaxError
    end = tl.minimum(begin + chunk, S)
    m = -1e30
    l = 0.0
    acc = tl.zeros([BLOCK_D], dtype=tl.float32)
    for start in range(begin, end, BLOCK_N):
        index = start + keys
        here = index < end
        at = base + index[:, None].to(tl.int64) * D + dims[None, :]
        #! fault mask_word compile: mask = here[:, None] and & live[None, :]
        #! says mask_word: SyntaxError
        mask = here[:, None] & live[None, :]
        kt = tl.load(k + at, mask=mask, other=0.0).to(tl.float32)
        vt = tl.load(v + at, mask=mask, other=0.0).to(tl.float32)
        s = tl.where(here, tl.sum(kt * x[None, :], 1), -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 0))
        keep = tl.exp2(m - m_new)
        p = tl.exp2(s - m_new)
        l = l * keep + tl.sum(p, 0)
        #! fault no_rescale wrong when B * H >= 8 && cdiv(S, SPLITS) > BLOCK_N: acc += tl.sum(vt * p[:, None], 0)
        acc = acc * keep + tl.sum(vt * p[:, None], 0)
        m = m_new
    slot = row.to(tl.int64) * SPLITS + split
    tl.store(part_o + slot * D + dims, acc, mask=live)
    tl.store(part_m + slot, m)
    tl.store(part_l + slot, l)


@triton.jit
def combine_kernel(part_o, part_m, part_l, o, D: tl.constexpr, BLOCK_D: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    dims = tl.arange(0, BLOCK_D)
    slots = row * SPLITS + tl.arange(0, SPLITS)
    live = dims < D
    m = tl.load(part_m + slots)
    weight = tl.exp2(m - tl.max(m, 0))
    #! fault equal_weights wrong when S >= 2: total = tl.sum(tl.load(part_l + slots), 0)
    total = tl.sum(weight * tl.load(part_l + slots), 0)
    parts = tl.load(part_o + slots[:, None] * D + dims[None, :], mask=live[None, :], other=0.0)
    #! fault equal_weights wrong when S >= 2: out = tl.sum(parts, 0) / total
    out = tl.sum(parts * weight[:, None], 0) / total
    tl.store(o + row * D + dims, out.to(o.dtype.element_ty), mask=live)


def triton_flash_decode_workspace(B, H, HKV, S, D):
    return B * H * SPLITS * (D + 2) * 4


def launch(q, k, v, o, B, H, HKV, S, D, workspace, workspace_bytes):
    if H % HKV != 0 or H // HKV > 128 or D not in (64, 80, 96, 128, 256):
        return 801
    #! fault size_colon compile: if workspace_bytes < triton_flash_decode_workspace(B, H, HKV, S, D)
    #! says size_colon: SyntaxError
    if workspace_bytes < triton_flash_decode_workspace(B, H, HKV, S, D):
        return 1
    scale = math.log2(math.e) / math.sqrt(D)  # exp2 replaces exp
    parts = B * H * SPLITS
    scratch = workspace[:parts * (D + 2) * 4].view(torch.float32)
    part_o, part_m, part_l = scratch[:parts * D], scratch[parts * D:parts * (D + 1)], scratch[parts * (D + 1):]
    block_d = triton.next_power_of_2(D)
    split_kernel[(B * H, SPLITS)](q, k, v, part_o, part_m, part_l, H, HKV, S, scale, D, block_d, BLOCK_N, SPLITS,
                                  num_warps=NUM_WARPS, num_stages=NUM_STAGES)
    combine_kernel[(B * H,)](part_o, part_m, part_l, o, D, block_d, SPLITS, num_warps=2)
    return 0
