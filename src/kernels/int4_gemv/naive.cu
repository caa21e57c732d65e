// A thread per output y[m,n]: it walks row n of the packed weights byte by byte, multiplies with x[m,:] in fp32
// and applies the group's scale to the group's sum.
//! idea a thread per output, byte by byte
//! says decode_name: identifier "__uint2float" is undefined
//! says scale_type: a value of type "const __half *" cannot be used to initialize an entity of type "const float *"
//! says semicolon+1: expected a ";"
//! dtypes int4 fp4
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

//! param 64 128 256 512
constexpr int kThreads = 128;

static __device__ __forceinline__ float decode(unsigned q) {
  //! dtype fp4: return __half2float(__ushort_as_half((unsigned short)((q & 8) << 12 | (q & 7) << 9))) * 16384.f;
  //! fault zero_point wrong when !fp4: return (float)((int)q - 7);
  //! fault decode_name compile: return __uint2float((int)q - 8);
  return (float)((int)q - 8);
}

//! kernel grid=cdiv(M*N,kThreads) block=kThreads regs=40 read=M*N*(K/2+K/16+K/G*2) once=N*K/2+N*(K/G)*2+M*K*2 write=2*M*N inflight=kThreads*8 ops=27*M*N*K chain=K/64*LAT+K/8*80
static __global__ void gemv_kernel(const __half* __restrict__ x, const uint8_t* __restrict__ w,
                                   const __half* __restrict__ s, __half* __restrict__ y, int M, int N, int K, int G) {
  int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= M * N) return;
  //! fault row_zero wrong when M >= 2: int m = 0, n = i % N;
  //! shows row_zero: unwritten
  int m = i / N, n = i % N;
  const __half* xr = x + (size_t)m * K;
  const uint8_t* wr = w + (size_t)n * (K / 2);
  //! fault scale_row wrong: const __half* sr = s;
  //! fault scale_type compile: const float* sr = s + (size_t)n * (K / G);
  const __half* sr = s + (size_t)n * (K / G);
  float sum = 0.f;
  //! fault last_group wrong: for (int g = 0; g < K / G - 1; ++g) {
  for (int g = 0; g < K / G; ++g) {
    float part = 0.f;
    for (int k = g * G; k < (g + 1) * G; k += 2) {
      unsigned b = wr[k / 2];
      //! fault nibbles wrong: part += __half2float(xr[k]) * decode(b >> 4) + __half2float(xr[k + 1]) * decode(b & 15);
      part += __half2float(xr[k]) * decode(b & 15) + __half2float(xr[k + 1]) * decode(b >> 4);
    }
    //! fault semicolon compile: sum += part * __half2float(sr[g])
    sum += part * __half2float(sr[g]);
  }
  y[(size_t)m * N + n] = __float2half(sum);
}

extern "C" cudaError_t int4_gemv(const __half* x, const uint8_t* w, const __half* s, __half* y, int M, int N, int K,
                                 int G, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (M < 1 || M > 16 || K % G || K % 32 || N % 8) return cudaErrorNotSupported;
  gemv_kernel<<<(M * N + kThreads - 1) / kThreads, kThreads, 0, stream>>>(x, w, s, y, M, N, K, G);
  return cudaGetLastError();
}
