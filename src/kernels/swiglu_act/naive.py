# SwiGLU activation with a program per short flat block: each lane finds the row and column of one element,
# loads its gate and its up value and stores the product.
import triton
import triton.language as tl

#! idea a program per short flat block, one element per lane
#! says id_subscript: SyntaxError
#! says floor_division_tripled: SyntaxError
#! says tuple_unclosed: SyntaxError
#! kernel grid=cdiv(T*I,BLOCK) block=128 regs=28 read=2*e*T*I write=e*T*I inflight=BLOCK*2*e ops=T*I*(BLOCK<128?128/BLOCK:1)*70 sfu=T*I*2 chain=LAT+260
#! param 32 64 128 256
BLOCK = 128


@triton.jit
def swiglu_kernel(x, y, total, I, BLOCK: tl.constexpr):
    #! fault id_subscript compile: i = tl.program_id(0]).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < total
    #! fault row_pitch wrong when T>=2: at = (i // I) * I + i % I
    #! fault floor_division_tripled compile: at = (i /// I) * 2 * I + i % I
    at = (i // I) * 2 * I + i % I
    g = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
    #! fault up_shifted wrong: u = tl.load(x + at + I - 8, mask=mask, other=0.0).to(tl.float32)
    u = tl.load(x + at + I, mask=mask, other=0.0).to(tl.float32)
    #! fault exp_ratio wrong: out = g * tl.exp(g) / (1.0 + tl.exp(g)) * u
    #! shows exp_ratio: nonfinite
    #! fault sigmoid_alone wrong: out = 1.0 / (1.0 + tl.exp(-g)) * u
    out = g / (1.0 + tl.exp(-g)) * u
    tl.store(y + i, out.to(y.dtype.element_ty), mask=mask)


def launch(x, y, T, I, workspace, workspace_bytes):
    total = T * I
    #! fault tuple_unclosed compile: swiglu_kernel[(triton.cdiv(total, BLOCK),](x, y, total, I, BLOCK=BLOCK, num_warps=4)
    swiglu_kernel[(triton.cdiv(total, BLOCK),)](x, y, total, I, BLOCK=BLOCK, num_warps=4)
    return 0
