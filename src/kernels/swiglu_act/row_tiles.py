# SwiGLU activation with a program per row and column tile: both halves are reached from one row pointer without a
# division per element, which leaves contiguous, vectorised loads.
import triton
import triton.language as tl

#! idea a program per row and column tile, no division per element
#! says tile_parenthesis: SyntaxError
#! says branch_colon: SyntaxError
#! says def_in_call: SyntaxError
#! kernel grid=T*cdiv(I,BLOCK) block=WARPS*32 regs=min(255,26+BLOCK/(WARPS*32)*2) read=2*e*T*I write=e*T*I inflight=min(BLOCK,I)*2*e ops=T*cdiv(I,BLOCK)*BLOCK*20+T*cdiv(I,BLOCK)*WARPS*32*40 sfu=T*cdiv(I,BLOCK)*BLOCK*2 chain=LAT+BLOCK/(WARPS*32)*24+100
#! param 512 1024 2048 4096 8192
BLOCK = 1024
#! param 1 2 4 8
WARPS = 4
#! param 0 1
STREAM = 1  # 1: x, read once, is marked evict-first


@triton.jit
def swiglu_kernel(x, y, I, tiles, BLOCK: tl.constexpr, STREAM: tl.constexpr):
    pid = tl.program_id(0)
    row = (pid // tiles).to(tl.int64)
    #! fault tile_parenthesis compile: cols = (pid % tiles * BLOCK + tl.arange(0, BLOCK)
    cols = (pid % tiles) * BLOCK + tl.arange(0, BLOCK)
    #! fault mask_short wrong: mask = cols < I - 8
    #! shows mask_short: unwritten
    mask = cols < I
    #! fault row_pitch wrong when T>=2: gate = x + row * I + cols
    gate = x + row * 2 * I + cols
    #! fault branch_colon compile: if STREAM
    if STREAM:
        g = tl.load(gate, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        u = tl.load(gate + I, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
    else:
        g = tl.load(gate, mask=mask, other=0.0).to(tl.float32)
        u = tl.load(gate + I, mask=mask, other=0.0).to(tl.float32)
    #! fault exponent_sign wrong: out = g / (1.0 + tl.exp(g)) * u
    #! fault relu_gate wrong: out = tl.maximum(g, 0.0) * u
    out = g / (1.0 + tl.exp(-g)) * u
    #! fault gate_alone wrong: tl.store(y + row * I + cols, (g / (1.0 + tl.exp(-g))).to(y.dtype.element_ty), mask=mask)
    tl.store(y + row * I + cols, out.to(y.dtype.element_ty), mask=mask)


def launch(x, y, T, I, workspace, workspace_bytes):
    tiles = triton.cdiv(I, BLOCK)
    #! fault def_in_call compile: swiglu_kernel[(T * tiles,)](x, y, I, tiles, BLOCK=BLOCK, STREAM=, num_warps=WARPS)
    swiglu_kernel[(T * tiles,)](x, y, I, tiles, BLOCK=BLOCK, STREAM=STREAM, num_warps=WARPS)
    return 0
