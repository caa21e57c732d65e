// Dequantises without integer-to-float conversion: one lop3 puts two nibbles into the mantissas of a half2, one more
// operation removes the offset, and half2 FMAs take two weights each. x is permuted to the nibbles' order when it is
// staged in shared memory. Chains of kChain terms run in half, everything above them in fp32.
//! idea lop3 dequantisation to half2 pairs
//! says permute_name: identifier "__byte_permute" is undefined
//! says member_name: class "uint4" has no member "q"
//! says runtime_argument: expression must have a constant value
//! dtypes int4 fp4
//! legal M <= kTokens
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

//! param 2 4 8 16
constexpr int kWarps = 8;    // warps per block
//! param 1 2 4
constexpr int kRows = 2;     // weight rows per warp
//! param 1 2 4 8 16
constexpr int kTokens = 16;  // rows of x held, M at most
//! param 4 8
constexpr int kChain = 4;    // half2 products added before the sum moves to fp32
//! param 1024 2048 4096
constexpr int kTile = 1024;  // values of k per stage of x
constexpr int kThreads = kWarps * 32;
constexpr int kUnits = kTile / 8;
constexpr size_t kSmem = (size_t)kTokens * kTile * sizeof(__half);

static __device__ __forceinline__ __half2 bits(uint32_t v) { return *reinterpret_cast<__half2*>(&v); }

// Nibbles k and k + 4 of a word as a half2, k = 0..3.
template <int k>
static __device__ __forceinline__ __half2 pair(uint32_t word) {
  uint32_t v = word >> (4 * k);
  // int4: 0x6400 is 1024, so the half holds 1024 + q. e2m1: its fields under the exponent of half, 2^-14 too small.
  //! dtype fp4: return __hmul2(bits((v & 0x00080008u) << 12 | (v & 0x00070007u) << 9), __float2half2_rn(16384.f));
  //! fault zero_point wrong when !fp4: return __hsub2(bits((v & 0x000F000Fu) | 0x64006400u), __float2half2_rn(1024.f));
  return __hsub2(bits((v & 0x000F000Fu) | 0x64006400u), __float2half2_rn(1032.f));
}

//! kernel grid=cdiv(N,kWarps*kRows) block=32*kWarps smem=kTokens*kTile*2 regs=min(2048/kWarps,24+9*kRows+kTokens*(kChain==4?6+9*kRows:16+13*kRows)/10) read=N*K/2+cdiv(N,kWarps*kRows)*M*K*2+N*(K/G)*2 once=N*K/2+N*(K/G)*2+M*K*2 write=2*M*N inflight=kWarps*512*kRows ops=N*K*(32+kTokens*(kChain==4?18:14))/16 chain=K/kTile*(LATL2+90)+cdiv(K,1024)*(LAT+kRows*(80+14*kTokens))+125*kRows*kTokens
static __global__ __launch_bounds__(kThreads) void gemv_kernel(const __half* __restrict__ x,
                                                               const uint8_t* __restrict__ w,
                                                               const __half* __restrict__ s, __half* __restrict__ y,
                                                               int M, int N, int K, int G) {
  extern __shared__ uint4 xs[];  // [kTokens][kUnits]; a lane's four units lie 32 apart
  int lane = threadIdx.x % 32;
  int n0 = (blockIdx.x * kWarps + threadIdx.x / 32) * kRows;
  float acc[kRows][kTokens] = {};
  for (int k0 = 0; k0 < K; k0 += kTile) {
    __syncthreads();
    for (int i = threadIdx.x; i < kTokens * kUnits; i += kThreads) {
      int m = i / kUnits, u = i % kUnits, k = k0 + u * 8;
      uint4 a = make_uint4(0, 0, 0, 0), b;
      if (m < M && k < K) a = __ldg(reinterpret_cast<const uint4*>(x + (size_t)m * K + k));
      // Values (0,4), (1,5), (2,6), (3,7): the order in which pair() delivers the nibbles.
      //! fault permute_name compile: b.x = __byte_permute(a.x, a.z, 0x5410);
      b.x = __byte_perm(a.x, a.z, 0x5410);
      //! fault high_halves wrong: b.y = __byte_perm(a.x, a.z, 0x5432);
      b.y = __byte_perm(a.x, a.z, 0x7632);
      //! fault plain_order wrong: b.z = a.z;
      b.z = __byte_perm(a.y, a.w, 0x5410);
      //! fault member_name compile: b.w = __byte_perm(a.y, a.q, 0x7632);
      b.w = __byte_perm(a.y, a.w, 0x7632);
      xs[m * kUnits + u / 128 * 128 + u % 4 * 32 + u % 128 / 4] = b;
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
        p[r] = __ldg(reinterpret_cast<const uint4*>(w + (size_t)n * (K / 2)) + c);
        //! fault scale_row wrong: scale[r] = __half2float(s[c * 32 / G]);
        scale[r] = __half2float(s[(size_t)n * (K / G) + c * 32 / G]);
      }
#pragma unroll
      for (int v = 0; v < 4; v += kChain / 4) {
        __half2 q[kRows][kChain];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
#pragma unroll
          for (int j = 0; j < kChain / 4; ++j) {
            int i = v + j;
            uint32_t word = i == 0 ? p[r].x : i == 1 ? p[r].y : i == 2 ? p[r].z : p[r].w;
            q[r][4 * j] = pair<0>(word);
            q[r][4 * j + 1] = pair<1>(word);
            //! fault runtime_argument compile: q[r][4 * j + 2] = pair<v>(word);
            q[r][4 * j + 2] = pair<2>(word);
            q[r][4 * j + 3] = pair<3>(word);
          }
        }
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
          __half2 sum[kRows] = {};
#pragma unroll
          for (int j = 0; j < kChain / 4; ++j) {
            uint4 xv = xs[t * kUnits + b * 128 + (v + j) * 32 + lane];
            const __half2* h = reinterpret_cast<const __half2*>(&xv);
#pragma unroll
            for (int i = 0; i < 4; ++i)
              for (int r = 0; r < kRows; ++r) sum[r] = __hfma2(h[i], q[r][4 * j + i], sum[r]);
          }
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            float2 f = __half22float2(sum[r]);
            //! fault one_lane wrong: acc[r][t] = fmaf(scale[r], f.x + f.x, acc[r][t]);
            acc[r][t] = fmaf(scale[r], f.x + f.y, acc[r][t]);
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
