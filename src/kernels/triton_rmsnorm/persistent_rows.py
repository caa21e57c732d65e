# RMS norm on a persistent grid: each program keeps the weights in registers and walks over rows with a stride, so the
# weights are read once per program and the pipelined loop loads the next rows while the present one is reduced.
import torch
import triton
import triton.language as tl

#! idea a persistent grid with the weights kept in registers
#! says loop_colon: SyntaxError
#! says member_arrow: SyntaxError
#! says call_target: SyntaxError
#! legal pow2(D)<=WARPS*32*64
#! kernel grid=min(T,SMS*PER_SM) block=WARPS*32 smem=WARPS*4+(STAGES>1?(STAGES-1)*pow2(D)*e:0) regs=min(255,36+pow2(D)/(WARPS*32)*2) read=e*T*D+min(T,SMS*PER_SM)*e*D once=e*(T+1)*D write=e*T*D inflight=D*e*max(1,STAGES-1) ops=T*pow2(D)*6+T*WARPS*32*70 sfu=T*WARPS*32 chain=(STAGES>1?0:LAT)+pow2(D)/(WARPS*32)*8+5*25+100 tiles=T
#! param 2 4 8 16
WARPS = 8
#! param 1 2 4 8
PER_SM = 4  # programs per multiprocessor
#! param 1 2 3 4
STAGES = 2


@triton.jit
def rmsnorm_kernel(x, w, y, T, D, eps, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    g = tl.load(w + cols, mask=mask, other=0.0).to(tl.float32)
    #! fault loop_colon compile: for row in tl.range(tl.program_id(0), T, tl.num_programs(0), num_stages=STAGES)
    for row in tl.range(tl.program_id(0), T, tl.num_programs(0), num_stages=STAGES):
        #! fault same_row wrong when T>2048: at = tl.program_id(0).to(tl.int64) * D + cols
        #! shows same_row: unwritten
        #! fault member_arrow compile: at = row->to(tl.int64) * D + cols
        at = row.to(tl.int64) * D + cols
        v = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        #! fault eps_squared wrong: inv = tl.rsqrt(tl.sum(v * v, axis=0) / D + eps * eps)
        #! fault half_mean wrong: inv = tl.rsqrt(tl.sum(v * v, axis=0) / (D // 2) + eps)
        inv = tl.rsqrt(tl.sum(v * v, axis=0) / D + eps)
        #! fault weight_added wrong: tl.store(y + at, (v * inv + g).to(y.dtype.element_ty), mask=mask)
        #! fault call_target compile: tl.store(y + at, mask=mask) = (v * inv * g).to(y.dtype.element_ty)
        tl.store(y + at, (v * inv * g).to(y.dtype.element_ty), mask=mask)


def launch(x, w, y, T, D, eps, workspace, workspace_bytes):
    block = triton.next_power_of_2(D)
    if block > WARPS * 32 * 64:
        return 801  # not supported
    sms = torch.cuda.get_device_properties(x.device).multi_processor_count
    grid = (min(T, sms * PER_SM),)
    rmsnorm_kernel[grid](x, w, y, T, D, eps, BLOCK=block, STAGES=STAGES, num_warps=WARPS)
    return 0
