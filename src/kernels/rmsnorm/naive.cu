// RMS norm with a block per row: one scalar pass over the row adds up the squares,
// a second scalar pass multiplies each element by the inverse root and by its weight.
#include <cuda_runtime.h>
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>

//! idea a block per row with two scalar passes
//! says bound_not_constant: a variable length array cannot have static storage duration
//! says shuffle_name: identifier "__shlf_xor_sync" is undefined
//! says store_to_input: no operator "=" matches these operands
//! says dim_dropped: too few arguments in function call
//! kernel grid=T block=THREADS smem=THREADS/32*4 regs=30 read=e*3*T*D once=e*(T+1)*D write=e*T*D inflight=THREADS*e*4 ops=14*T*D+40*T*THREADS sfu=T*THREADS chain=cdiv(D,4*THREADS)*(LAT+LATL2+80)+5*25+THREADS/32*30+50
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! param 32 64 128 256 512
constexpr int THREADS = 128;

static __global__ void __launch_bounds__(THREADS)
rmsnorm_kernel(const elem* x, const elem* w, elem* y, int D, float eps) {
  //! fault bound_not_constant compile: __shared__ float part[blockDim.x / 32];
  __shared__ float part[THREADS / 32];
  const elem* xr = x + (size_t)blockIdx.x * D;
  elem* yr = y + (size_t)blockIdx.x * D;
  float sum = 0.f;
  for (int i = threadIdx.x; i < D; i += THREADS) {
    float v = xr[i];
    //! fault half_squares wrong when bf16==0: sum += (float)__hmul(xr[i], xr[i]);
    sum += v * v;
  }
  //! fault shuffle_name compile: for (int o = 16; o > 0; o /= 2) sum += __shlf_xor_sync(0xffffffffu, sum, o);
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0.f;
  //! fault first_warp_only wrong when THREADS>=64: for (int i = 0; i < 1; ++i) total += part[i];
  for (int i = 0; i < THREADS / 32; ++i) total += part[i];
  //! fault sum_for_mean wrong: float inv = rsqrtf(total + eps);
  //! fault eps_left_out wrong: float inv = rsqrtf(total / D);
  //! shows eps_left_out: nonfinite
  float inv = rsqrtf(total / D + eps);
  for (int i = threadIdx.x; i < D; i += THREADS) {
    //! fault weight_by_thread wrong when D>THREADS: yr[i] = (elem)((float)xr[i] * inv * (float)w[threadIdx.x]);
    //! fault store_to_input compile: xr[i] = (elem)((float)xr[i] * inv * (float)w[i]);
    yr[i] = (elem)((float)xr[i] * inv * (float)w[i]);
  }
}

extern "C" cudaError_t rmsnorm(const elem* x, const elem* w, elem* y, int T, int D, float eps, void* workspace,
                               size_t workspace_bytes, cudaStream_t stream) {
  if (D % 8 != 0) return cudaErrorNotSupported;
  //! fault dim_dropped compile: rmsnorm_kernel<<<T, THREADS, 0, stream>>>(x, w, y, eps);
  rmsnorm_kernel<<<T, THREADS, 0, stream>>>(x, w, y, D, eps);
  return cudaGetLastError();
}
