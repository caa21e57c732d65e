# Single-token attention over a contiguous KV cache, one program per (batch, query head).
# The program walks the keys in blocks of BLOCK_N and keeps an online softmax in fp32; products are elementwise.
#! idea a program per head that walks the keys block by block
#! dtypes fp16 bf16
#! kernel grid=B*H block=32*NUM_WARPS smem=4*BLOCK_N+64 regs=min(255,40+3*BLOCK_N*pow2(D)/(32*NUM_WARPS)) read=2*B*H*S*D*2+2*B*H*D once=2*B*HKV*S*D*2+2*B*H*D write=2*B*H*D inflight=BLOCK_N*D*2 ops=B*H*cdiv(S,BLOCK_N)*BLOCK_N*(pow2(D)*9+40) sfu=B*H*cdiv(S,BLOCK_N)*(BLOCK_N+32*NUM_WARPS) chain=cdiv(S,BLOCK_N)*(2*LAT+400)+LAT+200
import math

import triton
import triton.language as tl

#! param 16 32 64 128
BLOCK_N = 32
#! param 1 2 4 8
NUM_WARPS = 4


@triton.jit
def decode_kernel(q, k, v, o, H, HKV, S, scale, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    head = row % H
    #! fault kv_head_modulo wrong when HKV > 1 && HKV < H: pair = row // H * HKV + head % HKV
    pair = row // H * HKV + head // (H // HKV)
    dims = tl.arange(0, BLOCK_D)
    keys = tl.arange(0, BLOCK_N)
    live = dims < D
    #! fault query_paren compile: x = tl.load(q + row.to(tl.int64) * D + dims, mask=live, other=0.0).to(tl.float32
    #! says query_paren: SyntaxError
    x = tl.load(q + row.to(tl.int64) * D + dims, mask=live, other=0.0).to(tl.float32)
    base = pair.to(tl.int64) * S * D
    m = -1e30
    l = 0.0
    acc = tl.zeros([BLOCK_D], dtype=tl.float32)
    #! fault loop_colon compile: for start in range(0, S, BLOCK_N)
    #! says loop_colon: SyntaxError
    #! fault tail_block wrong when S >= 2 && S % BLOCK_N != 0 && S > BLOCK_N: for start in range(0, S - BLOCK_N + 1, BLOCK_N):
    for start in range(0, S, BLOCK_N):
        index = start + keys
        #! fault last_key wrong when S >= 2: here = index < S - 1
        here = index < S
        at = base + index[:, None].to(tl.int64) * D + dims[None, :]
        mask = here[:, None] & live[None, :]
        kt = tl.load(k + at, mask=mask, other=0.0).to(tl.float32)
        #! fault unscaled wrong when S >= 2: s = tl.sum(kt * x[None, :], 1)
        s = tl.sum(kt * x[None, :], 1) * scale
        s = tl.where(here, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 0))
        keep = tl.exp2(m - m_new)
        p = tl.exp2(s - m_new)
        l = l * keep + tl.sum(p, 0)
        vt = tl.load(v + at, mask=mask, other=0.0).to(tl.float32)
        #! fault no_rescale wrong when B * H >= 8 && S > BLOCK_N: acc = acc + tl.sum(vt * p[:, None], 0)
        acc = acc * keep + tl.sum(vt * p[:, None], 0)
        m = m_new
    tl.store(o + row.to(tl.int64) * D + dims, (acc / l).to(o.dtype.element_ty), mask=live)


#! fault launch_comma compile: def launch(q, k, v, o, B, H, HKV, S, D workspace, workspace_bytes):
#! says launch_comma: SyntaxError
def launch(q, k, v, o, B, H, HKV, S, D, workspace, workspace_bytes):
    if H % HKV != 0 or H // HKV > 128 or D not in (64, 80, 96, 128, 256):
        #! fault empty_branch compile:
        #! says empty_branch: IndentationError
        return 801
    scale = math.log2(math.e) / math.sqrt(D)  # exp2 replaces exp
    decode_kernel[(B * H,)](q, k, v, o, H, HKV, S, scale, D, triton.next_power_of_2(D), BLOCK_N, num_warps=NUM_WARPS)
    return 0
