# RMS norm with a program per row: one pass over the row in narrow blocks adds up the squares,
# a second pass multiplies by the inverse root and by the weight.
import triton
import triton.language as tl

#! idea a program per row, two passes in narrow blocks
#! says colon_missing: SyntaxError
#! says block_body_left_out: SyntaxError
#! says keyword_then_position: SyntaxError
#! kernel grid=T block=128 smem=16 regs=32 read=e*3*T*D once=e*(T+1)*D write=e*T*D inflight=BLOCK*e ops=T*cdiv(D,BLOCK)*max(BLOCK,128)*16+T*128*40 sfu=T*128 chain=cdiv(D,BLOCK)*(LAT+LATL2+60)+5*25+90
#! param 64 128 256 512
BLOCK = 128


@triton.jit
#! fault colon_missing compile: def rmsnorm_kernel(x, w, y, D, eps, BLOCK: tl.constexpr)
def rmsnorm_kernel(x, w, y, D, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, D, BLOCK):
        #! fault block_body_left_out compile: cols = start + tl.arange(0, BLOCK
        cols = start + tl.arange(0, BLOCK)
        #! fault squares_in_half wrong when bf16==0: v = tl.load(x + row * D + cols, mask=cols < D, other=0.0)
        v = tl.load(x + row * D + cols, mask=cols < D, other=0.0).to(tl.float32)
        #! fault sum_restarted wrong when D>BLOCK: total = v * v
        total += v * v
    #! fault sum_for_mean wrong: inv = tl.rsqrt(tl.sum(total, axis=0) + eps)
    #! fault eps_left_out wrong: inv = tl.rsqrt(tl.sum(total, axis=0) / D)
    #! shows eps_left_out: nonfinite
    inv = tl.rsqrt(tl.sum(total, axis=0) / D + eps)
    for start in range(0, D, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < D
        v = tl.load(x + row * D + cols, mask=mask, other=0.0).to(tl.float32)
        #! fault weight_of_first_block wrong when D>BLOCK: g = tl.load(w + cols - start, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(w + cols, mask=mask, other=0.0).to(tl.float32)
        #! fault keyword_then_position compile: tl.store(y + row * D + cols, mask=mask, (v * inv * g).to(y.dtype.element_ty))
        tl.store(y + row * D + cols, (v * inv * g).to(y.dtype.element_ty), mask=mask)


def launch(x, w, y, T, D, eps, workspace, workspace_bytes):
    rmsnorm_kernel[(T,)](x, w, y, D, eps, BLOCK=BLOCK, num_warps=4)
    return 0
