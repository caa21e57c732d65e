# RMS norm with the whole row as one block: a single masked load keeps the row in registers,
# so it crosses the memory bus once and all its loads are in flight together.
import triton
import triton.language as tl

#! idea the whole row as one block, read once
#! says default_before_plain: SyntaxError
#! says assignment_in_call: SyntaxError
#! says else_if: SyntaxError
#! kernel grid=T block=WARPS*32 smem=WARPS*4 regs=min(255,28+pow2(D)/(WARPS*32)*(2+EARLY_WEIGHT)/2) read=2*e*T*D once=e*(T+1)*D write=e*T*D inflight=D*e*(1+EARLY_WEIGHT) ops=T*pow2(D)*6+T*WARPS*32*60 sfu=T*WARPS*32 chain=LAT+pow2(D)/(WARPS*32)*8+5*25+90+(EARLY_WEIGHT?0:LATL2)
#! param 1 2 4 8 16
WARPS = 8
#! param 0 1
EARLY_WEIGHT = 1  # 1: weights are requested before the reduction
#! param 0 1
STREAM = 1  # 1: x, read once, is marked evict-first


@triton.jit
#! fault default_before_plain compile: def rmsnorm_kernel(x, w, y, D, eps=1e-6, BLOCK: tl.constexpr,
def rmsnorm_kernel(x, w, y, D, eps, BLOCK: tl.constexpr,
                   EARLY_WEIGHT: tl.constexpr, STREAM: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    #! fault mask_short wrong: mask = cols < BLOCK // 2
    #! shows mask_short: unwritten
    #! fault assignment_in_call compile: mask = (cols = D)
    mask = cols < D
    if STREAM:
        v = tl.load(x + row * D + cols, mask=mask, other=0.0, eviction_policy="evict_first")
    else:
        v = tl.load(x + row * D + cols, mask=mask, other=0.0)
    #! fault else_if compile: else if EARLY_WEIGHT:
    if EARLY_WEIGHT:
        g = tl.load(w + cols, mask=mask, other=0.0).to(tl.float32)
    #! fault padding_not_zero wrong: v = tl.where(mask, v.to(tl.float32), 0.0) + 1.0
    v = v.to(tl.float32)
    #! fault eps_before_division wrong: inv = tl.rsqrt((tl.sum(v * v, axis=0) + eps) / D)
    #! fault mean_of_block wrong when D*16<pow2(D)*15: inv = tl.rsqrt(tl.sum(v * v, axis=0) / BLOCK + eps)
    inv = tl.rsqrt(tl.sum(v * v, axis=0) / D + eps)
    if not EARLY_WEIGHT:
        g = tl.load(w + cols, mask=mask, other=0.0).to(tl.float32)
    #! fault absolute_mean wrong: out = v / (tl.sum(tl.abs(v), axis=0) / D + eps) * g
    out = v * inv * g
    tl.store(y + row * D + cols, out.to(y.dtype.element_ty), mask=mask)


def launch(x, w, y, T, D, eps, workspace, workspace_bytes):
    rmsnorm_kernel[(T,)](x, w, y, D, eps, BLOCK=triton.next_power_of_2(D),
                         EARLY_WEIGHT=EARLY_WEIGHT, STREAM=STREAM, num_warps=WARPS)
    return 0
