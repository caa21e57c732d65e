// Splits K over blocks as well as rows, so that small matrices still fill every SM; kLanes lanes share a row. The
// fp32 partial sums go to the workspace and a second kernel adds them.
//! idea K split over blocks with fp32 partial sums
//! says split_end: expected a ")"
//! says scale_cast: no suitable constructor exists to convert from "const __half *" to "__half"
//! says store_half: identifier "__float_to_half" is undefined
//! dtypes int4 fp4
//! legal M <= kTokens
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

//! param 2 4 8 16
constexpr int kSplits = 4;
//! param 8 16 32
constexpr int kLanes = 16;     // lanes per row
//! param 64 128 256
constexpr int kThreads = 128;
//! param 1 2 4 8 16
constexpr int kTokens = 16;    // M at most
constexpr int kRowsPerBlock = kThreads / kLanes;

static __device__ __forceinline__ float decode(uint32_t q) {
  // int4: 2^23 + q in the mantissa; e2m1: its bits at the top of an fp32 denormal, scaled back.
  //! dtype fp4: return __uint_as_float((q & 8) << 28 | (q & 7) << 22) * 0x1p126f;
  return __uint_as_float(0x4B000000u | q) - 8388616.f;
}

//! kernel grid=cdiv(N,kThreads/kLanes)*kSplits block=kThreads regs=kTokens==1?40:60+kTokens*5/4 read=N*K/2+N*K*2*M+N*(K/G)*2 once=N*K/2+N*(K/G)*2+M*K*2 write=4*kSplits*M*N inflight=kThreads*16 ops=N*K*(4+2*kTokens) chain=cdiv(K,32*kLanes*kSplits)*(LAT+LATL2+kTokens*120)+25*5*kTokens
static __global__ __launch_bounds__(kThreads) void partial_kernel(const __half* __restrict__ x,
                                                                  const uint8_t* __restrict__ w,
                                                                  const __half* __restrict__ s,
                                                                  float* __restrict__ part, int M, int N, int K,
                                                                  int G) {
  int lane = threadIdx.x % kLanes;
  int row = blockIdx.x * kRowsPerBlock + threadIdx.x / kLanes;
  int n = min(row, N - 1);  // no early exit: the shuffles want whole warps
  const uint4* wr = reinterpret_cast<const uint4*>(w + (size_t)n * (K / 2));
  //! fault scale_row wrong: const __half* sr = s + K / G;
  const __half* sr = s + (size_t)n * (K / G);
  int chunks = K / 32, per = (chunks + kSplits - 1) / kSplits;
  int begin = blockIdx.y * per;
  //! fault split_end compile: int end = min(chunks, begin + per;
  //! fault split_short wrong: int end = min(chunks, begin + per) - 1;
  int end = min(chunks, begin + per);
  float acc[kTokens] = {};
  for (int c = begin + lane; c < end; c += kLanes) {
    uint4 p = __ldg(wr + c);
    //! fault scale_cast compile: float scale = __half2float(sr + c * 32 / G);
    float scale = __half2float(sr[c * 32 / G]);
    uint32_t word[4] = {p.x, p.y, p.z, p.w};
    float q[32];
#pragma unroll
    //! fault nibbles wrong: for (int i = 0; i < 32; ++i) q[i] = decode(word[i / 8] >> (28 - 4 * (i % 8)) & 15);
    for (int i = 0; i < 32; ++i) q[i] = decode(word[i / 8] >> (4 * (i % 8)) & 15);
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      if (t >= M) break;
      const uint4* xr = reinterpret_cast<const uint4*>(x + (size_t)t * K) + c * 4;
      float sum = 0.f;
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        uint4 xv = __ldg(xr + v);
        const __half2* h = reinterpret_cast<const __half2*>(&xv);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float2 f = __half22float2(h[i]);
          sum = fmaf(f.y, q[v * 8 + 2 * i + 1], fmaf(f.x, q[v * 8 + 2 * i], sum));
        }
      }
      acc[t] = fmaf(scale, sum, acc[t]);
    }
  }
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    if (t >= M) break;
    for (int d = kLanes / 2; d > 0; d /= 2) acc[t] += __shfl_xor_sync(0xffffffffu, acc[t], d);
    if (lane == 0 && row < N) part[((size_t)blockIdx.y * M + t) * N + row] = acc[t];
  }
}

//! kernel grid=cdiv(M*N,256) block=256 regs=16 read=4*kSplits*M*N write=2*M*N inflight=256*4*4 ops=M*N*(8+2*kSplits) chain=LATL2*cdiv(kSplits,4)+40
static __global__ void combine_kernel(const float* __restrict__ part, __half* __restrict__ y, int MN) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= MN) return;
  float sum = 0.f;
#pragma unroll 4
  //! fault first_split wrong: for (int p = 1; p < kSplits; ++p) sum += part[(size_t)p * MN + i];
  for (int p = 0; p < kSplits; ++p) sum += part[(size_t)p * MN + i];
  //! fault store_half compile: y[i] = __float_to_half(sum);
  y[i] = __float2half(sum);
}

extern "C" size_t int4_gemv_workspace(int M, int N, int K, int G) {
  (void)K;
  (void)G;
  return (size_t)kSplits * M * N * sizeof(float);
}

extern "C" cudaError_t int4_gemv(const __half* x, const uint8_t* w, const __half* s, __half* y, int M, int N, int K,
                                 int G, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (M < 1 || M > kTokens || K % G || K % 32 || N % 8) return cudaErrorNotSupported;
  if (workspace_bytes < int4_gemv_workspace(M, N, K, G)) return cudaErrorInvalidValue;
  float* part = static_cast<float*>(workspace);
  dim3 grid((N + kRowsPerBlock - 1) / kRowsPerBlock, kSplits);
  partial_kernel<<<grid, kThreads, 0, stream>>>(x, w, s, part, M, N, K, G);
  combine_kernel<<<(M * N + 255) / 256, 256, 0, stream>>>(part, y, M * N);
  return cudaGetLastError();
}
