# Split-KV attention for one token with the query heads of a group packed into the rows of tl.dot (padded to 16), so
# each key is read once per group and the products run on the tensor cores. Blocks of K and V are prefetched NUM_STAGES
# deep; SPLITS slices fill the GPU and a second kernel joins them.
#! idea grouped heads as rows of tl.dot with pipelined key blocks
#! dtypes fp16 bf16
#! kernel grid=B*HKV*cdiv(H/HKV,16)*SPLITS block=32*NUM_WARPS smem=32*(pow2(D)+BLOCK_N+32)+NUM_STAGES*4*BLOCK_N*pow2(D) regs=64+pow2(D)/NUM_WARPS+BLOCK_N*3/(2*NUM_WARPS)+pow2(D)/4 read=4*S*D*B*HKV*cdiv(H/HKV,16) write=4*B*H*SPLITS*D inflight=max(1,NUM_STAGES-1)*BLOCK_N*D*4 ops=B*HKV*cdiv(H/HKV,16)*S*(pow2(D)+400) chain=S/(SPLITS*BLOCK_N)*(pow2(D)*3+600)+2*LAT+400
#! kernel grid=B*H block=32*2 smem=0 regs=min(255,30+SPLITS*pow2(D)/64) read=4*B*H*SPLITS*(D+2) write=2*B*H*D inflight=4*SPLITS*D ops=B*H*SPLITS*(pow2(D)*4+60) sfu=B*H*SPLITS*64 chain=2*LATL2+400
import math

import torch
import triton
import triton.language as tl

BLOCK_H = 16
#! param 32 64 128
BLOCK_N = 64
#! param 2 4 8 16 32 64
SPLITS = 16
#! param 2 4 8
NUM_WARPS = 4
#! param 1 2 3 4
NUM_STAGES = 3


@triton.jit
def split_kernel(q, k, v, part_o, part_m, part_l, H, HKV, S, scale, D: tl.constexpr, BLOCK_D: tl.constexpr,
                 BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr, SPLITS: tl.constexpr):
    group = H // HKV
    head_blocks = tl.cdiv(group, BLOCK_H)
    pair = tl.program_id(0) // head_blocks
    split = tl.program_id(1)
    local = tl.program_id(0) % head_blocks * BLOCK_H + tl.arange(0, BLOCK_H)
    #! fault kv_head_modulo wrong when HKV > 1 && HKV < H: rows = pair // HKV * H + pair % HKV + local * HKV
    rows = pair // HKV * H + pair % HKV * group + local
    dims = tl.arange(0, BLOCK_D)
    keys = tl.arange(0, BLOCK_N)
    live = dims < D
    used = (local < group)[:, None] & live[None, :]
    #! fault row_bracket compile: x = tl.load(q + rows[:, None.to(tl.int64) * D + dims[None, :], mask=used, other=0.0)
    #! says row_bracket: SyntaxError
    x = tl.load(q + rows[:, None].to(tl.int64) * D + dims[None, :], mask=used, other=0.0)
    base = pair.to(tl.int64) * S * D
    chunk = tl.cdiv(tl.cdiv(S, SPLITS), BLOCK_N) * BLOCK_N  # whole blocks
    begin = split * chunk
    end = tl.minimum(begin + chunk, S)
    m = tl.full([BLOCK_H], -1e30, tl.float32)
    l = tl.zeros([BLOCK_H], dtype=tl.float32)
    acc = tl.zeros([BLOCK_H, BLOCK_D], dtype=tl.float32)
    for start in range(begin, end, BLOCK_N):
        index = start + keys
        #! fault strict_end wrong when S >= 2: here = index < S - 1
        here = index < end
        at = base + index.to(tl.int64) * D
        kt = tl.load(k + at[None, :] + dims[:, None], mask=here[None, :] & live[:, None], other=0.0)
        vt = tl.load(v + at[:, None] + dims[None, :], mask=here[:, None] & live[None, :], other=0.0)
        #! fault keyword_order compile: s = tl.dot(x, b=kt, scale) * scale
        #! says keyword_order: SyntaxError
        #! fault unscaled wrong when S >= 2: s = tl.dot(x, kt)
        s = tl.dot(x, kt) * scale
        s = tl.where(here[None, :], s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        keep = tl.exp2(m - m_new)
        p = tl.exp2(s - m_new[:, None])
        l = l * keep + tl.sum(p, 1)
        #! fault no_rescale wrong when B * H >= 8 && cdiv(S, SPLITS) > BLOCK_N: acc = tl.dot(p.to(vt.dtype), vt, acc)
        acc = tl.dot(p.to(vt.dtype), vt, acc * keep[:, None])
        m = m_new
    slots = rows.to(tl.int64) * SPLITS + split
    tl.store(part_o + slots[:, None] * D + dims[None, :], acc, mask=used)
    tl.store(part_m + slots, m, mask=local < group)
    tl.store(part_l + slots, l, mask=local < group)


@triton.jit
def combine_kernel(part_o, part_m, part_l, o, D: tl.constexpr, BLOCK_D: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    dims = tl.arange(0, BLOCK_D)
    slots = row * SPLITS + tl.arange(0, SPLITS)
    live = dims < D
    m = tl.load(part_m + slots)
    weight = tl.exp2(m - tl.max(m, 0))
    total = tl.sum(weight * tl.load(part_l + slots), 0)
    parts = tl.load(part_o + slots[:, None] * D + dims[None, :], mask=live[None, :], other=0.0)
    #! fault no_division wrong when S >= 2: out = tl.sum(parts * weight[:, None], 0)
    out = tl.sum(parts * weight[:, None], 0) / total
    #! fault repeated_mask compile: tl.store(o + row * D + dims, out.to(o.dtype.element_ty), mask=live, mask=dims < D)
    #! says repeated_mask: SyntaxError
    tl.store(o + row * D + dims, out.to(o.dtype.element_ty), mask=live)


def triton_flash_decode_workspace(B, H, HKV, S, D):
    return B * H * SPLITS * (D + 2) * 4


def launch(q, k, v, o, B, H, HKV, S, D, workspace, workspace_bytes):
    #! fault single_equal compile: if H % HKV = 0 or H // HKV > 128 or D not in (64, 80, 96, 128, 256):
    #! says single_equal: SyntaxError
    if H % HKV != 0 or H // HKV > 128 or D not in (64, 80, 96, 128, 256):
        return 801
    if workspace_bytes < triton_flash_decode_workspace(B, H, HKV, S, D):
        return 1
    scale = math.log2(math.e) / math.sqrt(D)  # exp2 replaces exp
    parts = B * H * SPLITS
    scratch = workspace[:parts * (D + 2) * 4].view(torch.float32)
    part_o, part_m, part_l = scratch[:parts * D], scratch[parts * D:parts * (D + 1)], scratch[parts * (D + 1):]
    block_d = triton.next_power_of_2(D)
    grid = (B * HKV * triton.cdiv(H // HKV, BLOCK_H), SPLITS)
    split_kernel[grid](q, k, v, part_o, part_m, part_l, H, HKV, S, scale, D, block_d, BLOCK_H, BLOCK_N, SPLITS,
                       num_warps=NUM_WARPS, num_stages=NUM_STAGES)
    combine_kernel[(B * H,)](part_o, part_m, part_l, o, D, block_d, SPLITS, num_warps=2)
    return 0
