// fp16 GEMM for a handful of rows: a warp owns COLS columns and streams their weights once with independent 16-byte
// loads, while the ROWS rows of a that it needs come from L1. Such products are bound by the bytes of b, which no
// tile shape makes fewer.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

//! idea a warp per column with streamed weights
//! legal M<=32
//! param 2 4 8
constexpr int WARPS = 4;
//! param 1 2 4 8 16
constexpr int ROWS = 4;     // rows of a per warp
//! param 1 2 4
constexpr int COLS = 1;     // columns per warp
//! param 1 2 4
constexpr int UNROLL = 2;   // 16-byte loads in flight per column
constexpr int STEP = 256;   // values of K that a warp reads at once
constexpr int MAX_M = 32;

static __device__ __forceinline__ float dot8(const uint4 &x, const uint4 &w, float sum) {
  const __half2 *p = (const __half2 *)&x, *q = (const __half2 *)&w;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    //! fault float2_half compile: const float2 f = __half2float(p[i]), g = __half2float(q[i]);
    //! says float2_half: no suitable user-defined conversion from "const __half2" to "__half" exists
    const float2 f = __half22float2(p[i]), g = __half22float2(q[i]);
    //! fault low_only wrong: sum = fmaf(f.x, g.x, sum);
    sum = fmaf(f.x, g.x, fmaf(f.y, g.y, sum));
  }
  return sum;
}

//! kernel grid=cdiv(N,WARPS*COLS)*cdiv(M,ROWS) block=32*WARPS smem=0 regs=28+COLS*UNROLL*6+(COLS+1)*ROWS/2 read=2*N*K*cdiv(M,ROWS)+2*M*K*cdiv(N,COLS*WARPS) once=2*K*(M+N) write=2*M*N inflight=512*WARPS*COLS*UNROLL ops=N*K*cdiv(M,ROWS)/8*(6+ROWS*(13+4/COLS))+N*M*320 chain=cdiv(K,256*UNROLL)*(LAT+40*ROWS)+25*5*ROWS*COLS
static __global__ void __launch_bounds__(32 * WARPS) gemv_kernel(const __half *a, const __half *b, __half *c,
                                                                 int M, int N, int K) {
  const int lane = threadIdx.x % 32, groups = (M + ROWS - 1) / ROWS;
  const int m0 = blockIdx.x % groups * ROWS;  // row groups of the same columns are neighbours: b comes from L2
  //! fault thread_dim compile: const int n0 = (blockIdx.x / groups * WARPS + thread.x / 32) * COLS;
  //! says thread_dim: identifier "thread" is undefined
  const int n0 = (blockIdx.x / groups * WARPS + threadIdx.x / 32) * COLS;
  if (n0 >= N) return;  // COLS divides 8 and 8 divides N: a warp's columns all exist
  const __half *x = a + (size_t)m0 * K, *w = b + (size_t)n0 * K;
  const uint4 zero = make_uint4(0, 0, 0, 0);
  float sum[COLS][ROWS] = {};
  //! fault k_tail wrong when K%(256*UNROLL)!=0: for (int k0 = lane * 8; k0 - lane * 8 + STEP * UNROLL <= K; k0 += STEP * UNROLL) {
  for (int k0 = lane * 8; k0 < K; k0 += STEP * UNROLL) {
    uint4 v[COLS][UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
#pragma unroll
      for (int j = 0; j < COLS; ++j)
        //! fault load_half compile: v[j][u] = k0 + u * STEP < K ? __ldcs(w + (size_t)j * K + k0 + u * STEP) : zero;
        //! says load_half: operand types are incompatible ("__half" and "const uint4")
        v[j][u] = k0 + u * STEP < K ? __ldcs((const uint4 *)(w + (size_t)j * K + k0 + u * STEP)) : zero;
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      if (k0 + u * STEP >= K) break;
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        if (m0 + r >= M) break;
        //! fault same_row wrong when M>=2&&ROWS>=2: const uint4 f = *(const uint4 *)(x + k0 + u * STEP);
        const uint4 f = *(const uint4 *)(x + (size_t)r * K + k0 + u * STEP);
#pragma unroll
        for (int j = 0; j < COLS; ++j) sum[j][r] = dot8(f, v[j][u], sum[j][r]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int j = 0; j < COLS; ++j) {
      float s = sum[j][r];
#pragma unroll
      //! fault half_warp wrong when K>8: for (int d = 16; d > 1; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
      //! fault shuffle_mask compile: for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(s, d);
      //! says shuffle_mask: no instance of overloaded function "__shfl_xor_sync" matches the argument list
      for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
      if (lane == 0 && m0 + r < M) c[(size_t)(m0 + r) * N + n0 + j] = __float2half_rn(s);
    }
}

extern "C" cudaError_t gemm_fp16(const __half *a, const __half *b, __half *c, int M, int N, int K,
                                 void * /*workspace*/, size_t /*workspace_bytes*/, cudaStream_t stream) {
  if (M < 1 || N < 8 || K < 8 || N % 8 || K % 8 || M > MAX_M) return cudaErrorNotSupported;
  const size_t blocks = (size_t)((N + WARPS * COLS - 1) / (WARPS * COLS)) * ((M + ROWS - 1) / ROWS);
  if (blocks > 0x7fffffff) return cudaErrorNotSupported;
  gemv_kernel<<<(unsigned)blocks, 32 * WARPS, 0, stream>>>(a, b, c, M, N, K);
  return cudaGetLastError();
}
