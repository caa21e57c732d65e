# RMS norm with a tile of several rows per program: the reduction runs along the columns of a two-dimensional block,
# so short rows still give every warp enough bytes to load and the weights are read once per tile.
import triton
import triton.language as tl

#! idea a tile of several rows per program
#! says unclosed_subscript: SyntaxError
#! says operator_doubled: SyntaxError
#! says names_joined: SyntaxError
#! says keyword_as_name: SyntaxError
#! legal ROWS*pow2(D)<=65536
#! kernel grid=cdiv(T,ROWS) block=WARPS*32 smem=WARPS*ROWS*4 regs=min(255,32+ROWS*pow2(D)/(WARPS*32)) read=e*T*D+cdiv(T,ROWS)*e*D once=e*(T+1)*D write=e*T*D inflight=ROWS*D*e ops=cdiv(T,ROWS)*ROWS*pow2(D)*7+cdiv(T,ROWS)*WARPS*32*80 sfu=T*WARPS chain=LAT+ROWS*pow2(D)/(WARPS*32)*9+5*25+120+LATL2
#! param 2 4 8 16 32
ROWS = 8
#! param 1 2 4 8
WARPS = 4


@triton.jit
def rmsnorm_kernel(x, w, y, T, D, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    #! fault unclosed_subscript compile: rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    mask = (rows < T) & (cols < D)
    at = rows * D + cols
    v = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
    g = tl.load(w + cols, mask=cols < D, other=0.0).to(tl.float32)
    #! fault mean_of_tile wrong when T>=2: mean = tl.sum(tl.sum(v * v, axis=1), axis=0) / D
    #! fault operator_doubled compile: mean = tl.sum(v * / v, axis=1)[:, None] / D
    mean = tl.sum(v * v, axis=1)[:, None] / D
    #! fault root_left_out wrong: out = v / (mean + eps) * g
    #! fault weight_left_out wrong: out = v * tl.rsqrt(mean + eps)
    out = v * tl.rsqrt(mean + eps) * g
    #! fault names_joined compile: tl.store(y + at, out.to(y.dtype.element_ty) mask=mask)
    tl.store(y + at, out.to(y.dtype.element_ty), mask=mask)


def launch(x, w, y, T, D, eps, workspace, workspace_bytes):
    block = triton.next_power_of_2(D)
    if ROWS * block > 65536:
        return 801  # not supported
    #! fault grid_rounded_down wrong when T%ROWS!=0&&T>ROWS: grid = (T // ROWS,)
    #! shows grid_rounded_down: unwritten
    #! fault keyword_as_name compile: lambda = (triton.cdiv(T, ROWS),)
    grid = (triton.cdiv(T, ROWS),)
    rmsnorm_kernel[grid](x, w, y, T, D, eps, ROWS=ROWS, BLOCK=block, num_warps=WARPS)
    return 0
