// fp16 GEMM on CUDA cores with register tiles: a thread owns TM x TN outputs, so that each value read from shared
// memory feeds TM or TN multiply-adds. Tiles are widened to fp32 and transposed on their way into shared memory;
// the next tile's 16-byte loads are in flight while the present one is multiplied.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

//! idea register tiles on CUDA cores
//! legal BM/TM*(BN/TN)>=64&&BM/TM*(BN/TN)<=1024
//! param 32 64 128
constexpr int BM = 128;
//! param 64 128
constexpr int BN = 128;
//! param 8 16 32
constexpr int BK = 16;
//! param 4 8
constexpr int TM = 8;
//! param 4 8
constexpr int TN = 8;
constexpr int TX = BN / TN, TY = BM / TM, THREADS = TX * TY;
constexpr int CH = BK / 8;  // 16-byte chunks of a tile row
constexpr int VA = (BM * CH + THREADS - 1) / THREADS, VB = (BN * CH + THREADS - 1) / THREADS;  // chunks per thread
static_assert(THREADS >= 64 && THREADS <= 1024, "threads per block");

// Chunks of the tile at row r0, depth k0; zeros outside the matrix.
template <int ROWS, int V>
static __device__ __forceinline__ void fetch(uint4 (&v)[V], const __half *src, int r0, int rows, int k0, int K) {
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const int i = j * THREADS + threadIdx.x, r = r0 + i / CH, k = k0 + i % CH * 8;
    const bool in = i < ROWS * CH && r < rows && k < K;
    //! fault vector_cast compile: v[j] = in ? *(uint4 *)(src + (size_t)r * K + k) : make_uint4(0);
    //! says vector_cast: too few arguments in function call
    v[j] = in ? *(const uint4 *)(src + (size_t)r * K + k) : make_uint4(0, 0, 0, 0);
  }
}

template <int ROWS, int V>
static __device__ __forceinline__ void store(float (&tile)[BK][ROWS + 4], const uint4 (&v)[V]) {
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const int i = j * THREADS + threadIdx.x;
    if (i >= ROWS * CH) break;
    const __half2 *h = (const __half2 *)&v[j];
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const float2 f = __half22float2(h[q]);
      tile[i % CH * 8 + q * 2][i / CH] = f.x;
      //! fault pair_second wrong: tile[i % CH * 8 + q * 2 + 1][i / CH] = f.x;
      //! fault pair_member compile: tile[i % CH * 8 + q * 2 + 1][i / CH] = f.hi;
      //! says pair_member: class "float2" has no member "hi"
      tile[i % CH * 8 + q * 2 + 1][i / CH] = f.y;
    }
  }
}

// Values of one k for a thread: groups of four, BLOCK / (R / 4) apart, so that a warp reads without bank conflicts.
template <int R, int ROWS>
static __device__ __forceinline__ void pick(float (&x)[R], const float (&row)[ROWS], int t, int step) {
#pragma unroll
  for (int g = 0; g < R / 4; ++g) {
    const float4 f = *(const float4 *)&row[g * step + t * 4];
    x[g * 4] = f.x, x[g * 4 + 1] = f.y, x[g * 4 + 2] = f.z, x[g * 4 + 3] = f.w;
  }
}

//! kernel grid=cdiv(M,BM)*cdiv(N,BN) block=BM/TM*(BN/TN) smem=BK*(BM+BN+8)*4 regs=TM*TN*3/2+30+(BK==32&&TM*TN==64)*14 read=2*K*(cdiv(N,BN)*M+cdiv(M,BM)*N) once=2*K*(M+N) write=2*M*N inflight=(BM+BN)*BK*2 ops=cdiv(M,BM)*cdiv(N,BN)*cdiv(K,BK)*BK*(BM*BN+BM*BN/TM/TN*(TM+TN)/2+(BM+BN)*3) chain=LAT+cdiv(K,BK)*(max(LAT,BK*TM*TN*2)+60)+200
static __global__ void __launch_bounds__(THREADS) gemm_kernel(const __half *a, const __half *b, __half *c,
                                                              int M, int N, int K) {
  __shared__ __align__(16) float as[BK][BM + 4], bs[BK][BN + 4];
  const int tx = threadIdx.x % TX, ty = threadIdx.x / TX;
  const int rows = (M + BM - 1) / BM, m0 = blockIdx.x % rows * BM, n0 = blockIdx.x / rows * BN;
  float acc[TM][TN] = {};
  uint4 va[VA], vb[VB];
  fetch<BM>(va, a, m0, M, 0, K);
  //! fault fetch_args compile: fetch<BN>(vb, b, n0, N, K);
  //! says fetch_args: no instance of function template "fetch" matches the argument list
  fetch<BN>(vb, b, n0, N, 0, K);
  //! fault k_tail wrong when K>BK&&K%BK!=0: for (int k0 = 0; k0 + BK <= K; k0 += BK) {
  for (int k0 = 0; k0 < K; k0 += BK) {
    store<BM>(as, va);
    store<BN>(bs, vb);
    __syncthreads();
    //! fault next_tile wrong when K>BK: fetch<BM>(va, a, m0, M, k0, K);
    fetch<BM>(va, a, m0, M, k0 + BK, K);
    fetch<BN>(vb, b, n0, N, k0 + BK, K);
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float x[TM], y[TN];
      pick(x, as[k], ty, TY * 4);
      pick(y, bs[k], tx, TX * 4);
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(x[i], y[j], acc[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    //! shows row_group: unwritten
    //! fault row_group wrong when TM==8&&M>=BM: const int m = m0 + i / 4 * TY + ty * 4 + i % 4;
    const int m = m0 + i / 4 * TY * 4 + ty * 4 + i % 4;
#pragma unroll
    for (int g = 0; g < TN / 4; ++g) {
      const int n = n0 + g * TX * 4 + tx * 4;
      if (m >= M || n >= N) continue;
      //! fault pack_semi compile: const __half2 lo = __floats2half2_rn(acc[i][g * 4], acc[i][g * 4 + 1])
      //! says pack_semi+1: expected a ";"
      const __half2 lo = __floats2half2_rn(acc[i][g * 4], acc[i][g * 4 + 1]);
      const __half2 hi = __floats2half2_rn(acc[i][g * 4 + 2], acc[i][g * 4 + 3]);
      *(uint2 *)&c[(size_t)m * N + n] = make_uint2(*(const unsigned *)&lo, *(const unsigned *)&hi);
    }
  }
}

extern "C" cudaError_t gemm_fp16(const __half *a, const __half *b, __half *c, int M, int N, int K,
                                 void * /*workspace*/, size_t /*workspace_bytes*/, cudaStream_t stream) {
  if (M < 1 || N < 8 || K < 8 || N % 8 || K % 8) return cudaErrorNotSupported;
  const size_t tiles = (size_t)((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  if (tiles > 0x7fffffff) return cudaErrorNotSupported;
  gemm_kernel<<<(unsigned)tiles, THREADS, 0, stream>>>(a, b, c, M, N, K);
  return cudaGetLastError();
}
