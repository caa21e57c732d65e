# Split-KV attention for one token in a single launch: the heads of a group are the rows of tl.dot, every program writes
# the partial result of its slice and takes a ticket, and the program that draws the last ticket of a group joins the
# slices. This saves the launch and the drain between two kernels, which is what small batches wait for.
#! idea grouped tl.dot with the last program joining the slices
#! dtypes fp16 bf16
#! kernel grid=B*HKV*cdiv(H/HKV,16)*SPLITS block=32*NUM_WARPS smem=32*(pow2(D)+BLOCK_N+32)+NUM_STAGES*4*BLOCK_N*pow2(D) regs=72+pow2(D)/NUM_WARPS+BLOCK_N*3/(2*NUM_WARPS)+pow2(D)/4 read=4*S*D*B*HKV*cdiv(H/HKV,16) write=4*B*H*SPLITS*D inflight=max(1,NUM_STAGES-1)*BLOCK_N*D*4 ops=B*HKV*cdiv(H/HKV,16)*S*(pow2(D)+400) chain=S/(SPLITS*BLOCK_N)*(pow2(D)*3+600)+2*LAT+900+SPLITS*200
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
def decode_kernel(q, k, v, o, ticket, part_o, part_m, part_l, H, HKV, S, scale, D: tl.constexpr,
                  BLOCK_D: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr, SPLITS: tl.constexpr):
    group = H // HKV
    head_blocks = tl.cdiv(group, BLOCK_H)
    item = tl.program_id(0)
    pair = item // head_blocks
    split = tl.program_id(1)
    local = item % head_blocks * BLOCK_H + tl.arange(0, BLOCK_H)
    #! fault head_stride wrong when HKV > 1 && HKV < H: rows = (pair // HKV * H + pair % HKV + local * HKV).to(tl.int64)
    rows = (pair // HKV * H + pair % HKV * group + local).to(tl.int64)
    dims = tl.arange(0, BLOCK_D)
    keys = tl.arange(0, BLOCK_N)
    live = dims < D
    some = local < group
    used = some[:, None] & live[None, :]
    x = tl.load(q + rows[:, None] * D + dims[None, :], mask=used, other=0.0)
    base = pair.to(tl.int64) * S * D
    chunk = tl.cdiv(tl.cdiv(S, BLOCK_N), SPLITS) * BLOCK_N  # whole blocks
    begin = split * chunk
    #! fault minus_one wrong when S >= 2: end = tl.minimum(begin + chunk, S - 1)
    end = tl.minimum(begin + chunk, S)
    m = tl.full([BLOCK_H], -1e30, tl.float32)
    l = tl.zeros([BLOCK_H], dtype=tl.float32)
    acc = tl.zeros([BLOCK_H, BLOCK_D], dtype=tl.float32)
    #! fault in_range compile: for start range(begin, end, BLOCK_N):
    #! says in_range: SyntaxError
    for start in range(begin, end, BLOCK_N):
        index = start + keys
        here = index < end
        at = base + index.to(tl.int64) * D
        kt = tl.load(k + at[None, :] + dims[:, None], mask=here[None, :] & live[:, None], other=0.0)
        vt = tl.load(v + at[:, None] + dims[None, :], mask=here[:, None] & live[None, :], other=0.0)
        #! fault natural_base wrong when S >= 2: s = tl.where(here[None, :], tl.dot(x, kt), -float("inf"))
        s = tl.where(here[None, :], tl.dot(x, kt) * scale, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        keep = tl.exp2(m - m_new)
        #! fault open_index compile: p = tl.exp2(s - m_new[:, None)
        #! says open_index: SyntaxError
        p = tl.exp2(s - m_new[:, None])
        l = l * keep + tl.sum(p, 1)
        acc = tl.dot(p.to(vt.dtype), vt, acc * keep[:, None])
        m = m_new
    slots = rows * SPLITS + split
    tl.store(part_o + slots[:, None] * D + dims[None, :], acc, mask=used)
    tl.store(part_m + slots, m, mask=some)
    tl.store(part_l + slots, l, mask=some)
    tl.debug_barrier()  # all threads have stored before one of them takes the ticket
    #! fault ticket_quote compile: done = tl.atomic_add(ticket + item, 1, sem="acq_rel)
    #! says ticket_quote: SyntaxError
    done = tl.atomic_add(ticket + item, 1, sem="acq_rel")
    if done == SPLITS - 1:
        tl.debug_barrier()
        tl.store(ticket + item, 0)  # ready for the next call
        m = tl.full([BLOCK_H], -1e30, tl.float32)
        l = tl.zeros([BLOCK_H], dtype=tl.float32)
        acc = tl.zeros([BLOCK_H, BLOCK_D], dtype=tl.float32)
        for i in range(0, SPLITS):
            at = rows * SPLITS + i
            m_i = tl.load(part_m + at, mask=some, other=-1e30, cache_modifier=".cg")
            l_i = tl.load(part_l + at, mask=some, other=0.0, cache_modifier=".cg")
            o_i = tl.load(part_o + at[:, None] * D + dims[None, :], mask=used, other=0.0, cache_modifier=".cg")
            m_new = tl.maximum(m, m_i)
            keep = tl.exp2(m - m_new)
            weight = tl.exp2(m_i - m_new)
            l = l * keep + l_i * weight
            acc = acc * keep[:, None] + o_i * weight[:, None]
            m = m_new
        l = tl.where(some, l, 1.0)
        #! fault sum_left_out wrong when S >= 2: out = acc.to(o.dtype.element_ty)
        out = (acc / l[:, None]).to(o.dtype.element_ty)
        tl.store(o + rows[:, None] * D + dims[None, :], out, mask=used)


def triton_flash_decode_workspace(B, H, HKV, S, D):
    items = B * HKV * triton.cdiv(H // HKV, BLOCK_H)
    return triton.cdiv(items, 64) * 256 + B * H * SPLITS * (D + 2) * 4


def launch(q, k, v, o, B, H, HKV, S, D, workspace, workspace_bytes):
    if H % HKV != 0 or H // HKV > 128 or D not in (64, 80, 96, 128, 256):
        return 801
    if workspace_bytes < triton_flash_decode_workspace(B, H, HKV, S, D):
        return 1
    scale = math.log2(math.e) / math.sqrt(D)  # exp2 replaces exp
    items = B * HKV * triton.cdiv(H // HKV, BLOCK_H)
    first, parts = triton.cdiv(items, 64) * 256, B * H * SPLITS
    ticket = workspace[:first].view(torch.int32)
    #! fault slice_end compile: scratch = workspace[first:first + parts * (D + 2) * 4.view(torch.float32)
    #! says slice_end: SyntaxError
    scratch = workspace[first:first + parts * (D + 2) * 4].view(torch.float32)
    part_o, part_m, part_l = scratch[:parts * D], scratch[parts * D:parts * (D + 1)], scratch[parts * (D + 1):]
    decode_kernel[(items, SPLITS)](q, k, v, o, ticket, part_o, part_m, part_l, H, HKV, S, scale, D,
                                   triton.next_power_of_2(D), BLOCK_H, BLOCK_N, SPLITS, num_warps=NUM_WARPS,
                                   num_stages=NUM_STAGES)
    return 0
