# RMS norm in two passes of wide blocks: the first pass asks L2 to keep the row, the second reads it back from there and
# lets it go. Registers hold one block only, so long rows neither spill nor waste masked lanes.
import triton
import triton.language as tl

#! idea two passes of wide blocks, the row kept in L2 between them
#! says loop_without_in: SyntaxError
#! says division_typo: SyntaxError
#! says policy_quote: SyntaxError
#! kernel grid=T block=WARPS*32 smem=WARPS*4 regs=min(255,36+BLOCK/(WARPS*32)*3/2) read=e*3*T*D once=e*(T+1)*D write=e*T*D inflight=min(BLOCK,D)*e*STAGES ops=T*cdiv(D,BLOCK)*BLOCK*10+T*WARPS*32*80 sfu=T*WARPS*32 chain=cdiv(D,BLOCK*STAGES)*LAT+cdiv(D,BLOCK*STAGES)*LATL2+cdiv(D,BLOCK)*(BLOCK/(WARPS*32)*8+60)+5*25+90
#! param 512 1024 2048 4096 8192
BLOCK = 2048
#! param 2 4 8 16
WARPS = 8
#! param 1 2 3
STAGES = 2  # loads of later blocks that the compiler may start early


@triton.jit
def rmsnorm_kernel(x, w, y, D, eps, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    xr = x + row * D
    #! fault output_row_swapped wrong when T>=2: yr = y + (tl.num_programs(0) - 1 - row) * D
    yr = y + row * D
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    #! fault last_block_left_out wrong when D%BLOCK!=0&&T!=2: for start in tl.range(0, D - BLOCK + 1, BLOCK, num_stages=STAGES):
    #! fault loop_without_in compile: for start of tl.range(0, D, BLOCK, num_stages=STAGES):
    for start in tl.range(0, D, BLOCK, num_stages=STAGES):
        cols = start + tl.arange(0, BLOCK)
        v = tl.load(xr + cols, mask=cols < D, other=0.0, eviction_policy="evict_last").to(tl.float32)
        #! fault sum_without_square wrong: total += v
        #! shows sum_without_square: nonfinite
        total += v * v
    #! fault eps_outside wrong: inv = tl.rsqrt(tl.sum(total, axis=0) / D) + eps
    #! shows eps_outside: nonfinite
    #! fault division_typo compile: inv = tl.rsqrt(tl.sum(total, axis=0) /D + eps))
    inv = tl.rsqrt(tl.sum(total, axis=0) / D + eps)
    for start in tl.range(0, D, BLOCK, num_stages=STAGES):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < D
        v = tl.load(xr + cols, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        #! fault policy_quote compile: g = tl.load(w + cols, mask=mask, other=0.0, eviction_policy="evict_last).to(tl.float32)
        g = tl.load(w + cols, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        tl.store(yr + cols, (v * inv * g).to(y.dtype.element_ty), mask=mask)


def launch(x, w, y, T, D, eps, workspace, workspace_bytes):
    rmsnorm_kernel[(T,)](x, w, y, D, eps, BLOCK=BLOCK, STAGES=STAGES, num_warps=WARPS)
    return 0
