// fp8 GEMM c[M,N] = (a[M,K] * b[N,K]^T) * sa * sb: a thread per element of c walks along K, converts each e4m3 value to
// fp32 and sums in fp32. A block covers BY rows and BX columns, so that neighbouring threads share rows through L1.
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

//! idea a thread per output element
//! param 8 16 32
constexpr int BX = 16;  // columns of c per block
//! param 4 8 16
constexpr int BY = 8;   // rows of c per block

//! kernel grid=cdiv(M,BY)*cdiv(N,BX) block=BX*BY smem=0 regs=40 read=K*(cdiv(N,BX)*M+cdiv(M,BY)*N) once=K*(M+N) write=2*M*N inflight=(BX+BY)*32 ops=M*N*K*((arch>=90?9:30)+14*BX/5) chain=cdiv(K,32)*LAT+K*(arch>=90?20:50)
static __global__ void __launch_bounds__(BX * BY) gemm_kernel(const __nv_fp8_e4m3 *a, const __nv_fp8_e4m3 *b,
                                                              const float *sa, const float *sb, __half *c,
                                                              int M, int N, int K) {
  const int rows = (M + BY - 1) / BY;
  const int m = blockIdx.x % rows * BY + threadIdx.y;
  const int n = blockIdx.x / rows * BX + threadIdx.x;
  if (m >= M || n >= N) return;
  const __nv_fp8_e4m3 *x = a + (size_t)m * K;
  //! fault fp8_type compile: const __nv_fp8_e4m3 *y = b + (size_t)n * K
  //! says fp8_type+1: expected a ";"
  //! fault e5m2_b wrong: const __nv_fp8_e5m2 *y = (const __nv_fp8_e5m2 *)b + (size_t)n * K;
  const __nv_fp8_e4m3 *y = b + (size_t)n * K;
  float sum = 0.f;
  //! fault last_k wrong when K<=32768: for (int k = 0; k < K - 1; ++k) sum += (float)x[k] * (float)y[k];
  //! fault half_convert compile: for (int k = 0; k < K; ++k) sum += __half2float(x[k]) * __half2float(y[k]);
  //! says half_convert: no suitable user-defined conversion from "const __nv_fp8_e4m3" to "__half" exists
  for (int k = 0; k < K; ++k) sum += (float)x[k] * (float)y[k];
  //! fault scale_array compile: c[(size_t)m * N + n] = __float2half_rn(sum * sa * sb);
  //! says scale_array: expression must have arithmetic or unscoped enum type
  //! fault scale_square wrong: c[(size_t)m * N + n] = __float2half_rn(sum * sa[0] * sa[0]);
  c[(size_t)m * N + n] = __float2half_rn(sum * sa[0] * sb[0]);
}

extern "C" cudaError_t fp8_gemm(const __nv_fp8_e4m3 *a, const __nv_fp8_e4m3 *b, const float *sa, const float *sb,
                                __half *c, int M, int N, int K, void * /*workspace*/, size_t /*workspace_bytes*/,
                                cudaStream_t stream) {
  if (M < 1 || N < 8 || K < 16 || N % 8 || K % 16) return cudaErrorNotSupported;
  const size_t tiles = (size_t)((M + BY - 1) / BY) * ((N + BX - 1) / BX);
  if (tiles > 0x7fffffff) return cudaErrorNotSupported;
  const dim3 grid((unsigned)tiles), block(BX, BY);
  //! fault block_swap compile: gemm_kernel<<<grid, block, stream>>>(a, b, sa, sb, c, M, N, K);
  //! says block_swap: argument of type "cudaStream_t" (aka "CUstream_st *") is incompatible with parameter of type "size_t" (aka "unsigned long")
  gemm_kernel<<<grid, block, 0, stream>>>(a, b, sa, sb, c, M, N, K);
  return cudaGetLastError();
}
