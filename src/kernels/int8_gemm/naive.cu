// int8 GEMM c[M,N] = (a[M,K] * b[N,K]^T) * sa[m] * sb[n]: a thread per element of c walks along K, sums in int32 and
// scales at the end. A block covers BY rows and BX columns, so that neighbouring threads share rows through L1.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

//! idea a thread per output element
//! param 8 16 32
constexpr int BX = 16;  // columns of c per block
//! param 4 8 16
constexpr int BY = 8;   // rows of c per block

//! kernel grid=cdiv(M,BY)*cdiv(N,BX) block=BX*BY smem=0 regs=32 read=K*(cdiv(N,BX)*M+cdiv(M,BY)*N) once=K*(M+N) write=2*M*N inflight=(BX+BY)*32 ops=M*N*K*(4+14*BX/5) chain=cdiv(K,32)*LAT+K*8
static __global__ void __launch_bounds__(BX * BY) gemm_kernel(const int8_t *a, const int8_t *b, const float *sa,
                                                              const float *sb, __half *c, int M, int N, int K) {
  const int rows = (M + BY - 1) / BY;
  const int m = blockIdx.x % rows * BY + threadIdx.y;
  //! fault block_name compile: const int n = blockId.x / rows * BX + threadIdx.x;
  //! says block_name: identifier "blockId" is undefined
  const int n = blockIdx.x / rows * BX + threadIdx.x;
  if (m >= M || n >= N) return;
  const int8_t *x = a + (size_t)m * K;
  //! fault element_type compile: const __half *y = b + (size_t)n * K;
  //! says element_type: a value of type "const int8_t *" cannot be used to initialize an entity of type "const __half *"
  const int8_t *y = b + (size_t)n * K;
  int sum = 0;
  //! fault last_k wrong: for (int k = 0; k < K - 1; ++k)
  for (int k = 0; k < K; ++k)
    //! fault unsigned_b wrong: sum += x[k] * (uint8_t)y[k];
    //! fault int16_sum wrong: sum = (int16_t)(sum + x[k] * y[k]);
    sum += x[k] * y[k];
  //! fault sb_gone wrong: c[(size_t)m * N + n] = __float2half_rn((float)sum * sa[m]);
  //! fault sb_paren compile: c[(size_t)m * N + n] = __float2half_rn((float)sum * sa[m] * sb[n];
  //! says sb_paren: expected a ")"
  c[(size_t)m * N + n] = __float2half_rn((float)sum * sa[m] * sb[n]);
}

extern "C" cudaError_t int8_gemm(const int8_t *a, const int8_t *b, const float *sa, const float *sb, __half *c,
                                 int M, int N, int K, void * /*workspace*/, size_t /*workspace_bytes*/,
                                 cudaStream_t stream) {
  if (M < 1 || N < 8 || K < 16 || N % 8 || K % 16) return cudaErrorNotSupported;
  const size_t tiles = (size_t)((M + BY - 1) / BY) * ((N + BX - 1) / BX);
  if (tiles > 0x7fffffff) return cudaErrorNotSupported;
  const dim3 grid((unsigned)tiles), block(BX, BY);
  //! fault stream_name compile: gemm_kernel<<<grid, block, 0, cuda_stream>>>(a, b, sa, sb, c, M, N, K);
  //! says stream_name: identifier "cuda_stream" is undefined
  gemm_kernel<<<grid, block, 0, stream>>>(a, b, sa, sb, c, M, N, K);
  return cudaGetLastError();
}
