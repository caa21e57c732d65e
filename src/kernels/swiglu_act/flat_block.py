# SwiGLU activation over long flat blocks: elements are numbered across rows, so rows of any length leave no lane idle,
# and a block long enough for several 16-byte vectors per lane keeps many loads in flight.
import triton
import triton.language as tl

#! idea long flat blocks numbered across rows
#! says conditional_unfinished: SyntaxError
#! says star_missing: SyntaxError
#! says keyword_twice: SyntaxError
#! kernel grid=cdiv(T*I,BLOCK) block=WARPS*32 regs=min(255,30+BLOCK/(WARPS*32)*2) read=2*e*T*I write=e*T*I inflight=BLOCK*2*e ops=T*I*36 sfu=T*I*2 chain=LAT+BLOCK/(WARPS*32)*36+120
#! param 512 1024 2048 4096 8192
BLOCK = 2048
#! param 1 2 4 8 16
WARPS = 4


@triton.jit
def swiglu_kernel(x, y, total, I, BLOCK: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * BLOCK
    lane = tl.arange(0, BLOCK)
    #! fault tail_block_skipped wrong when T*I%BLOCK!=0: mask = (base + lane < total) & (base + BLOCK <= total)
    #! shows tail_block_skipped: unwritten
    mask = base + lane < total
    # the only 64-bit division is one per program; within the block 32 bits do
    col = (base % I).to(tl.int32) + lane
    #! fault conditional_unfinished compile: at = (base // I) * 2 * I + (col // I) * 2 * I + col % I if
    #! fault row_change_missed wrong when T>=2&&BLOCK%I!=0&&I%BLOCK!=0: at = (base // I) * 2 * I + col
    at = (base // I) * 2 * I + (col // I) * 2 * I + col % I
    g = tl.load(x + at, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
    #! fault up_not_offset wrong: u = tl.load(x + at, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
    u = tl.load(x + at + I, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
    #! fault gate_and_up_exchanged wrong: out = u * tl.sigmoid(u) * g
    #! fault silu_of_product wrong: out = g * u * tl.sigmoid(g * u)
    #! fault star_missing compile: out = g tl.sigmoid(g) * u
    out = g * tl.sigmoid(g) * u
    tl.store(y + base + lane, out.to(y.dtype.element_ty), mask=mask)


def launch(x, y, T, I, workspace, workspace_bytes):
    total = T * I
    grid = (triton.cdiv(total, BLOCK),)
    #! fault keyword_twice compile: swiglu_kernel[grid](x, y, total, I, BLOCK=BLOCK, BLOCK=BLOCK, num_warps=WARPS)
    swiglu_kernel[grid](x, y, total, I, BLOCK=BLOCK, num_warps=WARPS)
    return 0
