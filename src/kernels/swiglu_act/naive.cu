// SwiGLU activation with a thread per output element: two scalar loads, one exponential, one scalar store.
#include <cuda_runtime.h>
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>

//! idea a thread per element with scalar loads
//! says block_index_type: no suitable conversion function from "const uint3" to "size_t" (aka "unsigned long") exists
//! says subscript_missing: a value of type "const elem *" cannot be used to initialize an entity of type "const float"
//! says exponential_name: identifier "fexp" is undefined
//! says launch_config_three: argument of type "cudaStream_t" (aka "CUstream_st *") is incompatible with parameter of type "size_t" (aka "unsigned long")
//! kernel grid=cdiv(T*I,THREADS) block=THREADS regs=20 read=2*e*T*I write=e*T*I inflight=THREADS*2*e ops=T*I*60 sfu=T*I*2 chain=LAT+200
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! param 64 128 256 512 1024
constexpr int THREADS = 256;

static __global__ void __launch_bounds__(THREADS) swiglu_kernel(const elem* x, elem* y, int T, int I) {
  //! fault block_index_type compile: const size_t i = (size_t)blockIdx * THREADS + threadIdx.x;
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= (size_t)T * I) return;
  const size_t row = i / I, col = i % I;
  //! fault gate_and_up_exchanged wrong: const float u = x[row * 2 * I + col];
  const float g = x[row * 2 * I + col];
  //! fault gate_and_up_exchanged wrong: const float g = x[row * 2 * I + I + col];
  //! fault up_shifted wrong: const float u = x[row * 2 * I + I - 8 + col];
  //! fault subscript_missing compile: const float u = x + row * 2 * I + I + col;
  const float u = x[row * 2 * I + I + col];
  //! fault sigmoid_alone wrong: y[i] = (elem)(1.f / (1.f + __expf(-g)) * u);
  //! fault exponent_sign wrong: y[i] = (elem)(g / (1.f + __expf(g)) * u);
  //! fault exp_ratio wrong: y[i] = (elem)(g * __expf(g) / (1.f + __expf(g)) * u);
  //! shows exp_ratio: nonfinite
  //! fault exponential_name compile: y[i] = (elem)(g / (1.f + fexp(-g)) * u);
  y[i] = (elem)(g / (1.f + __expf(-g)) * u);
}

extern "C" cudaError_t swiglu_act(const elem* x, elem* y, int T, int I, void* workspace, size_t workspace_bytes,
                                  cudaStream_t stream) {
  if (I % 8 != 0) return cudaErrorNotSupported;
  const size_t blocks = ((size_t)T * I + THREADS - 1) / THREADS;
  if (blocks > 2147483647u) return cudaErrorNotSupported;
  //! fault launch_config_three compile: swiglu_kernel<<<(unsigned)blocks, THREADS, stream>>>(x, y, T, I);
  swiglu_kernel<<<(unsigned)blocks, THREADS, 0, stream>>>(x, y, T, I);
  return cudaGetLastError();
}
