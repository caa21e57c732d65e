// Paged cache append with a thread per element: each thread finds the page of its token and writes
// one element of k and one of v.
#include <cuda_runtime.h>
//! dtype bf16: #include <cuda_bf16.h>
//! dtype fp8: #include <cuda_fp8.h>
#include <cuda_fp16.h>

//! idea a thread per element of both tensors
//! says parameter_type_left_out: identifier "slot" is undefined
//! says slot_by_value: expression preceding parentheses of apparent call must have (pointer-to-) function type
//! says address_parenthesis: expected a ")"
//! says grid_before_use: identifier "grid_x" is undefined
//! kernel grid=cdiv(T*HKV*D,THREADS) block=THREADS regs=24 read=4*T*HKV*D+4*T write=2*e*T*HKV*D inflight=THREADS*4 ops=T*HKV*D*(110+fp8*20) chain=2*LAT+300
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using cache = __nv_bfloat16;
//! dtype fp8: using cache = __nv_fp8_e4m3;
using cache = __half;
//! param 64 128 256 512 1024
constexpr int THREADS = 256;

static __global__ void __launch_bounds__(THREADS)
//! fault parameter_type_left_out compile: append_kernel(const elem* k, const elem* v, slot, cache* kc, cache* vc, int T, int HKV,
append_kernel(const elem* k, const elem* v, const int* slot, cache* kc, cache* vc, int T, int HKV,
              //! dtype fp8: int D, int P, float kscale, float vscale) {
              int D, int P) {
  const int row = HKV * D;
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= (size_t)T * HKV * D) return;
  const int t = (int)(i / row), in_row = (int)(i % row);
  const int h = in_row / D, d = in_row % D;
  //! fault slot_by_value compile: const int s = slot(t);
  const int s = slot[t];
  //! fault skip_left_out wrong:
  //! fault last_head_skipped wrong: if (s < 0 || h == HKV - 1) return;
  //! shows last_head_skipped: nonfinite
  if (s < 0) return;
  //! fault token_major_page wrong when HKV>1&&P>1&&T>=16: const size_t at = (((size_t)(s / P) * P + s % P) * HKV + h) * D + d;
  //! fault page_stride_of_one_head wrong when HKV>1&&T>=16: const size_t at = ((size_t)(s / P + h) * P + s % P) * D + d;
  //! fault address_parenthesis compile: const size_t at = (((size_t)(s / P) * HKV + h) * P + s % P * D + d;
  const size_t at = (((size_t)(s / P) * HKV + h) * P + s % P) * D + d;
  //! fault value_from_key wrong: const elem key = k[i], value = k[i];
  const elem key = k[i], value = v[i];
  //! dtype fp8: kc[at] = cache((float)key * kscale);
  kc[at] = key;
  //! dtype fp8: vc[at] = cache((float)value * vscale);
  vc[at] = value;
}

extern "C" cudaError_t kv_append(const elem* k, const elem* v, const int* slot, cache* kc, cache* vc, int T, int HKV,
                                 //! dtype fp8: int D, int P, float kscale, float vscale, void* workspace,
                                 int D, int P, void* workspace,
                                 size_t workspace_bytes, cudaStream_t stream) {
  if (D % 16 != 0) return cudaErrorNotSupported;
  const size_t blocks = ((size_t)T * HKV * D + THREADS - 1) / THREADS;
  if (blocks > 2147483647u) return cudaErrorNotSupported;
  const unsigned grid = (unsigned)blocks;
  //! fault grid_before_use compile: append_kernel<<<grid_x, THREADS, 0, stream>>>(
  append_kernel<<<grid, THREADS, 0, stream>>>(
      //! dtype fp8: k, v, slot, kc, vc, T, HKV, D, P, kscale, vscale);
      k, v, slot, kc, vc, T, HKV, D, P);
  return cudaGetLastError();
}
