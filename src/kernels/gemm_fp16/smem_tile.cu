// fp16 GEMM on CUDA cores with shared-memory tiles: a TY x BK piece of a and a TX x BK piece of b are read once
// per block, so that each value fetched from global memory serves TX or TY threads; sums are fp32.
// Rows of the tiles are padded to spread a column of b over the banks.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

//! idea shared-memory tiles on CUDA cores
//! param 16 32
constexpr int TX = 32;   // columns of c per block
//! param 4 8 16 32
constexpr int TY = 16;   // rows of c per block
//! param 16 32 64 128
constexpr int BK = 32;   // depth of a tile
//! param 0 1
constexpr int PAD = 1;   // words added to a tile row
constexpr int THREADS = TX * TY;
constexpr int BP = BK / 2;  // pairs of halves in a tile row

//! kernel grid=cdiv(M,TY)*cdiv(N,TX) block=TX*TY smem=(TX+TY)*(BK/2+PAD)*4 regs=56 read=2*K*(cdiv(N,TX)*M+cdiv(M,TY)*N) once=2*K*(M+N) write=2*M*N inflight=min((TX+TY)*BK*2,TX*TY*16) ops=cdiv(M,TY)*cdiv(N,TX)*cdiv(K,BK)*BK*(TX*TY*(8+(PAD==0)*min(BK/2,32)*TX/32)/2+(TX+TY)*4) chain=cdiv(K,BK)*(LAT+60+BK*6)
static __global__ void __launch_bounds__(THREADS) gemm_kernel(const __half2 *a, const __half2 *b, __half *c,
                                                              int M, int N, int K) {
  //! fault tile_const compile: __shared__ __half2 as[TY][K / 2 + PAD], bs[TX][K / 2 + PAD];
  //! says tile_const: a variable length array cannot have static storage duration
  __shared__ __half2 as[TY][BP + PAD], bs[TX][BP + PAD];
  const int tid = threadIdx.x, tx = tid % TX, ty = tid / TX;
  const int rows = (M + TY - 1) / TY, pairs = K / 2;
  const int m0 = blockIdx.x % rows * TY, n0 = blockIdx.x / rows * TX;
  const __half2 zero = __float2half2_rn(0.f);
  float sum = 0.f;
  //! fault k_tail wrong when K%BK!=0: for (int k0 = 0; k0 + BP <= pairs; k0 += BP) {
  for (int k0 = 0; k0 < pairs; k0 += BP) {
    for (int i = tid; i < TY * BP; i += THREADS) {
      const int r = i / BP, k = i % BP;
      //! fault index_kind compile: as[r, k] = m0 + r < M && k0 + k < pairs ? a[(m0 + r) * pairs + k0 + k] : zero;
      //! says index_kind: expression must be a modifiable lvalue
      as[r][k] = m0 + r < M && k0 + k < pairs ? a[(size_t)(m0 + r) * pairs + k0 + k] : zero;
    }
    for (int i = tid; i < TX * BP; i += THREADS) {
      const int r = i / BP, k = i % BP;
      bs[r][k] = n0 + r < N && k0 + k < pairs ? b[(size_t)(n0 + r) * pairs + k0 + k] : zero;
    }
    //! fault sync_name compile: __sync_threads();
    //! says sync_name: identifier "__sync_threads" is undefined
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < BP; ++k) {
      //! fault b_row wrong when TY<=TX: const float2 x = __half22float2(as[ty][k]), y = __half22float2(bs[ty][k]);
      const float2 x = __half22float2(as[ty][k]), y = __half22float2(bs[tx][k]);
      //! fault odd_k wrong: sum = fmaf(x.x, y.x, sum);
      //! fault half_sum wrong when K>=256: sum = __half2float(__float2half_rn(fmaf(x.x, y.x, fmaf(x.y, y.y, sum))));
      sum = fmaf(x.x, y.x, fmaf(x.y, y.y, sum));
    }
    __syncthreads();
  }
  const int m = m0 + ty, n = n0 + tx;
  if (m < M && n < N) c[(size_t)m * N + n] = __float2half_rn(sum);
}

extern "C" cudaError_t gemm_fp16(const __half *a, const __half *b, __half *c, int M, int N, int K,
                                 void * /*workspace*/, size_t /*workspace_bytes*/, cudaStream_t stream) {
  if (M < 1 || N < 8 || K < 8 || N % 8 || K % 8) return cudaErrorNotSupported;
  const size_t tiles = (size_t)((M + TY - 1) / TY) * ((N + TX - 1) / TX);
  if (tiles > 0x7fffffff) return cudaErrorNotSupported;
  //! fault pair_type compile: gemm_kernel<<<(unsigned)tiles, THREADS, 0, stream>>>(a, b, c, M, N, K);
  //! says pair_type: argument of type "const __half *" is incompatible with parameter of type "const __half2 *"
  gemm_kernel<<<(unsigned)tiles, THREADS, 0, stream>>>((const __half2 *)a, (const __half2 *)b, c, M, N, K);
  return cudaGetLastError();
}
