// Stages x in shared memory once per block, so that the caches carry the packed weights alone. Each warp owns kRows
// rows: one x value read from shared memory feeds kRows products, and kRows weight loads are in flight per lane.
//! idea x staged in shared memory, several rows per warp
//! says barrier_name: identifier "__syncthread" is undefined
//! says store_args: too many arguments in function call
//! says const_write: expression must be a modifiable lvalue
//! dtypes int4 fp4
//! legal M <= kTokens
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

//! param 2 4 8 16
constexpr int kWarps = 8;    // warps per block
//! param 1 2 4 8
constexpr int kRows = 2;     // weight rows per warp
//! param 1 2 4 8 16
constexpr int kTokens = 16;  // rows of x held, M at most
//! param 1024 2048 4096
constexpr int kTile = 1024;  // values of k per stage of x
constexpr int kThreads = kWarps * 32;
constexpr int kUnits = kTile / 8;  // 16-byte units per row of the stage
constexpr size_t kSmem = (size_t)kTokens * kTile * sizeof(__half);

static __device__ __forceinline__ float decode(uint32_t q) {
  // int4: 2^23 + q in the mantissa; e2m1: its bits at the top of an fp32 denormal, scaled back.
  //! dtype fp4: return __uint_as_float((q & 8) << 28 | (q & 7) << 22) * 0x1p126f;
  //! fault zero_point wrong when !fp4: return __uint_as_float(0x4B000000u | q) - 8388608.f;
  return __uint_as_float(0x4B000000u | q) - 8388616.f;
}

// A lane reads four consecutive units; units 32 apart in shared memory keep the 32 lanes on different banks.
static __device__ __forceinline__ int place(int unit) {
  //! fault store_order wrong: return unit / 128 * 128 + unit % 32 * 4 + unit % 128 / 32;
  return unit / 128 * 128 + unit % 4 * 32 + unit % 128 / 4;
}

//! kernel grid=cdiv(N,kWarps*kRows) block=32*kWarps smem=kTokens*kTile*2 regs=min(min(255,2048/kWarps),24+5*kRows+(11*kRows+5)*kTokens/5+(kRows==8)*45) read=N*K/2+cdiv(N,kWarps*kRows)*M*K*2+N*(K/G)*2 once=N*K/2+N*(K/G)*2+M*K*2 write=2*M*N inflight=kWarps*512*kRows ops=N*K*(5+kTokens)+N*K*kTokens*2/kRows chain=cdiv(K,kTile)*(LATL2+90)+cdiv(K,1024)*(LAT+kRows*(160+32*kTokens))+125*kRows*kTokens
static __global__ __launch_bounds__(kThreads) void gemv_kernel(const __half* __restrict__ x,
                                                               const uint8_t* __restrict__ w,
                                                               const __half* __restrict__ s, __half* __restrict__ y,
                                                               int M, int N, int K, int G) {
  extern __shared__ uint4 xs[];  // [kTokens][kUnits], units in the order of place()
  int lane = threadIdx.x % 32;
  int n0 = (blockIdx.x * kWarps + threadIdx.x / 32) * kRows;
  float acc[kRows][kTokens] = {};
  for (int k0 = 0; k0 < K; k0 += kTile) {
    //! fault barrier_name compile: __syncthread();
    __syncthreads();
    for (int i = threadIdx.x; i < kTokens * kUnits; i += kThreads) {
      int m = i / kUnits, u = i % kUnits, k = k0 + u * 8;
      uint4 v = make_uint4(0, 0, 0, 0);
      //! fault row_zero wrong when M >= 2: if (m < M && k < K) v = __ldg(reinterpret_cast<const uint4*>(x + k));
      if (m < M && k < K) v = __ldg(reinterpret_cast<const uint4*>(x + (size_t)m * K + k));
      //! fault store_args compile: xs[m * kUnits + place(u, 8)] = v;
      xs[m * kUnits + place(u)] = v;
    }
    __syncthreads();
    for (int b = 0; b < kTile / 1024; ++b) {
      int c = k0 / 32 + b * 32 + lane;
      if (c >= K / 32) break;
      uint4 p[kRows];
      float scale[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        int n = min(n0 + r, N - 1);
        //! fault const_write compile: w[0] = 0, p[r] = __ldg(reinterpret_cast<const uint4*>(w + (size_t)n * (K / 2)) + c);
        p[r] = __ldg(reinterpret_cast<const uint4*>(w + (size_t)n * (K / 2)) + c);
        //! fault group_32 wrong when G != 32 && K > G: scale[r] = __half2float(s[(size_t)n * (K / G) + c % (K / G)]);
        scale[r] = __half2float(s[(size_t)n * (K / G) + c * 32 / G]);
      }
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        float q[kRows][8];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          uint32_t word = v == 0 ? p[r].x : v == 1 ? p[r].y : v == 2 ? p[r].z : p[r].w;
#pragma unroll
          for (int i = 0; i < 8; ++i) q[r][i] = decode(word >> (4 * i) & 15) * scale[r];
        }
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
          uint4 xv = xs[t * kUnits + b * 128 + v * 32 + lane];
          const __half2* h = reinterpret_cast<const __half2*>(&xv);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float2 f = __half22float2(h[i]);
#pragma unroll
            for (int r = 0; r < kRows; ++r)
              acc[r][t] = fmaf(f.y, q[r][2 * i + 1], fmaf(f.x, q[r][2 * i], acc[r][t]));
          }
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      for (int d = 16; d > 0; d /= 2) acc[r][t] += __shfl_xor_sync(0xffffffffu, acc[r][t], d);
      if (lane == 0 && t < M && n0 + r < N) y[(size_t)t * N + n0 + r] = __float2half(acc[r][t]);
    }
  }
}

extern "C" cudaError_t int4_gemv(const __half* x, const uint8_t* w, const __half* s, __half* y, int M, int N, int K,
                                 int G, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (M < 1 || M > kTokens || K % G || K % 32 || N % 8) return cudaErrorNotSupported;
  cudaError_t e = cudaFuncSetAttribute(gemv_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)kSmem);
  if (e != cudaSuccess) return e;
  int rows = kWarps * kRows;
  gemv_kernel<<<(N + rows - 1) / rows, kThreads, kSmem, stream>>>(x, w, s, y, M, N, K, G);
  return cudaGetLastError();
}
