# SwiGLU activation on a persistent grid: each program walks over column tiles of rows with a stride, and the pipelined
# loop starts the loads of the next tiles before the present one is stored.
import torch
import triton
import triton.language as tl

#! idea a persistent grid over column tiles with a pipelined loop
#! says range_bracket: SyntaxError
#! says equals_twice: SyntaxError
#! says power_symbol: SyntaxError
#! kernel grid=min(T*cdiv(I,BLOCK),SMS*PER_SM) block=WARPS*32 smem=(STAGES>1?(STAGES-1)*BLOCK*2*e:0) regs=min(255,40+BLOCK/(WARPS*32)*2) read=2*e*T*I write=e*T*I inflight=min(BLOCK,I)*2*e*max(1,STAGES-1) ops=T*cdiv(I,BLOCK)*BLOCK*24 sfu=T*cdiv(I,BLOCK)*BLOCK*2 chain=(STAGES>1?0:LAT)+BLOCK/(WARPS*32)*28+120 tiles=T*cdiv(I,BLOCK)
#! param 512 1024 2048 4096
BLOCK = 2048
#! param 2 4 8
WARPS = 4
#! param 1 2 4 8
PER_SM = 4  # programs per multiprocessor
#! param 1 2 3 4
STAGES = 3


@triton.jit
def swiglu_kernel(x, y, count, I, tiles, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    #! fault range_bracket compile: for k in tl.range(tl.program_id(0), count, tl.num_programs(0), num_stages=STAGES]:
    for k in tl.range(tl.program_id(0), count, tl.num_programs(0), num_stages=STAGES):
        row = (k // tiles).to(tl.int64)
        #! fault tile_not_scaled wrong when I>BLOCK+cdiv(I,BLOCK): cols = k % tiles + tl.arange(0, BLOCK)
        #! shows tile_not_scaled: unwritten
        cols = (k % tiles) * BLOCK + tl.arange(0, BLOCK)
        mask = cols < I
        #! fault equals_twice compile: gate = = x + row * 2 * I + cols
        gate = x + row * 2 * I + cols
        g = tl.load(gate, mask=mask, other=0.0).to(tl.float32)
        #! fault up_one_tile_on wrong when I!=BLOCK: u = tl.load(gate + BLOCK, mask=mask, other=0.0).to(tl.float32)
        u = tl.load(gate + I, mask=mask, other=0.0).to(tl.float32)
        #! fault tanh_for_sigmoid wrong: out = g * (2.0 * tl.sigmoid(2.0 * g) - 1.0) * u
        #! fault up_squared wrong: out = g * tl.sigmoid(g) * u * u
        #! fault power_symbol compile: out = g * tl.sigmoid(g) * * u
        out = g * tl.sigmoid(g) * u
        tl.store(y + row * I + cols, out.to(y.dtype.element_ty), mask=mask)


def launch(x, y, T, I, workspace, workspace_bytes):
    tiles = triton.cdiv(I, BLOCK)
    sms = torch.cuda.get_device_properties(x.device).multi_processor_count
    grid = (min(T * tiles, sms * PER_SM),)
    swiglu_kernel[grid](x, y, T * tiles, I, tiles, BLOCK=BLOCK, STAGES=STAGES, num_warps=WARPS)
    return 0
