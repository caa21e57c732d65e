// fp16 GEMM c[M,N] = a[M,K] * b[N,K]^T: a thread per element of c walks along K and sums in fp32.
// A block covers BY rows and BX columns, so that neighbouring threads find each other's rows in L1.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

//! idea a thread per output element
//! param 8 16 32
constexpr int BX = 16;  // columns of c per block
//! param 4 8 16
constexpr int BY = 8;   // rows of c per block

//! kernel grid=cdiv(M,BY)*cdiv(N,BX) block=BX*BY smem=0 regs=32 read=2*K*(cdiv(N,BX)*M+cdiv(M,BY)*N) once=2*K*(M+N) write=2*M*N inflight=(BX+BY)*32 ops=M*N*K*(6+14*BX/5) chain=cdiv(K,16)*LAT+K*10
static __global__ void __launch_bounds__(BX * BY) gemm_kernel(const __half *a, const __half *b, __half *c,
                                                              int M, int N, int K) {
  const int rows = (M + BY - 1) / BY;
  //! fault thread_y compile: const int m = blockIdx.x % rows * BY + threadIdx.row;
  //! says thread_y: class "uint3" has no member "row"
  const int m = blockIdx.x % rows * BY + threadIdx.y;
  const int n = blockIdx.x / rows * BX + threadIdx.x;
  if (m >= M || n >= N) return;
  const __half *x = a + (size_t)m * K;
  //! fault const_row compile: __half *y = b + (size_t)n * K;
  //! says const_row: a value of type "const __half *" cannot be used to initialize an entity of type "__half *"
  //! fault b_layout wrong: const __half *y = b + n;
  const __half *y = b + (size_t)n * K;
  float sum = 0.f;
  //! fault last_k wrong: for (int k = 0; k < K - 1; ++k) {
  for (int k = 0; k < K; ++k) {
    //! fault b_layout wrong: const float p = __half2float(x[k]) * __half2float(y[(size_t)k * N]);
    const float p = __half2float(x[k]) * __half2float(y[k]);
    //! fault half_sum wrong when K>=256: sum = __half2float(__float2half_rn(sum + p));
    sum += p;
  }
  //! fault to_half compile: c[(size_t)m * N + n] = __float22half_rn(sum);
  //! says to_half: identifier "__float22half_rn" is undefined
  c[(size_t)m * N + n] = __float2half_rn(sum);
}

extern "C" cudaError_t gemm_fp16(const __half *a, const __half *b, __half *c, int M, int N, int K,
                                 void * /*workspace*/, size_t /*workspace_bytes*/, cudaStream_t stream) {
  if (M < 1 || N < 8 || K < 8 || N % 8 || K % 8) return cudaErrorNotSupported;
  //! shows row_tail: unwritten
  //! fault row_tail wrong when M>BY&&M%BY!=0: const size_t tiles = (size_t)(M / BY) * ((N + BX - 1) / BX);
  const size_t tiles = (size_t)((M + BY - 1) / BY) * ((N + BX - 1) / BX);
  if (tiles > 0x7fffffff) return cudaErrorNotSupported;
  //! fault grid_type compile: const dim3 grid(tiles, block(BX, BY));
  //! says grid_type: identifier "block" is undefined
  const dim3 grid((unsigned)tiles), block(BX, BY);
  gemm_kernel<<<grid, block, 0, stream>>>(a, b, c, M, N, K);
  return cudaGetLastError();
}
