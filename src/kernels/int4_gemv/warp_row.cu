// A warp per weight row: each lane takes 32 weights with one 16-byte load and keeps several such loads in flight, so
// that the packed matrix streams at full width. x comes through the L1 cache; kTokens rows of it share each weight.
//! idea a warp per row with 16-byte weight loads
//! says cast_name: identifier "__uint_to_float" is undefined
//! says scale_index: identifier "g" is undefined
//! says vector_type: identifier "half4" is undefined
//! dtypes int4 fp4
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

//! param 1 2 4 8 16
constexpr int kWarps = 4;   // rows per block
//! param 1 2 4 8 16
constexpr int kTokens = 4;  // rows of x per pass over the weights
//! param 1 2 4 8
constexpr int kUnroll = 2;  // 16-byte loads in flight per lane

static __device__ __forceinline__ float decode(uint32_t q) {
  // int4: 2^23 + q in the mantissa; e2m1: its bits at the top of an fp32 denormal, scaled back.
  //! dtype fp4: return __uint_as_float((q & 8) << 28 | (q & 7) << 22) * 0x1p126f;
  //! fault zero_point wrong when !fp4: return __uint_as_float(0x4B000000u | q) - 8388615.f;
  //! fault cast_name compile: return __uint_to_float(0x4B000000u | q) - 8388616.f;
  return __uint_as_float(0x4B000000u | q) - 8388616.f;
}

//! kernel grid=cdiv(N,kWarps) block=32*kWarps regs=kWarps==16&&kTokens*kUnroll>=64?260:min(2048/kWarps,kTokens>8?190:26+18*kTokens+(2+kTokens)*kUnroll) read=cdiv(M,kTokens)*N*(K/2+K/G*2+kTokens*K*2) once=N*K/2+N*(K/G)*2+M*K*2 write=2*M*N inflight=kWarps*512*kUnroll ops=cdiv(M,kTokens)*N*K*(4+2*kTokens) chain=cdiv(M,kTokens)*(cdiv(K,1024*kUnroll)*(LAT+LATL2+kUnroll*kTokens*150)+125*kTokens)
static __global__ __launch_bounds__(kWarps * 32) void gemv_kernel(const __half* __restrict__ x,
                                                                  const uint8_t* __restrict__ w,
                                                                  const __half* __restrict__ s,
                                                                  __half* __restrict__ y, int M, int N, int K, int G) {
  int lane = threadIdx.x % 32;
  int n = blockIdx.x * kWarps + threadIdx.x / 32;
  if (n >= N) return;
  const uint4* wr = reinterpret_cast<const uint4*>(w + (size_t)n * (K / 2));
  //! fault scale_row wrong: const __half* sr = s;
  const __half* sr = s + (size_t)n * (K / G);
  int chunks = K / 32;
  for (int m0 = 0; m0 < M; m0 += kTokens) {
    float acc[kTokens] = {};
    for (int c0 = lane; c0 < chunks; c0 += 32 * kUnroll) {
      uint4 p[kUnroll] = {};
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        if (c0 + 32 * u < chunks) p[u] = __ldg(wr + c0 + 32 * u);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        int c = c0 + 32 * u;
        if (c >= chunks) break;
        //! fault group_128 wrong when G != 128 && K >= 128: float scale = __half2float(sr[c * 32 / 128]);
        //! fault scale_index compile: float scale = __half2float(sr[c * 32 / g]);
        float scale = __half2float(sr[c * 32 / G]);
        uint32_t word[4] = {p[u].x, p[u].y, p[u].z, p[u].w};
        float part[kTokens] = {};
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          float q[8];
#pragma unroll
          //! fault nibbles wrong: for (int i = 0; i < 8; ++i) q[i ^ 1] = decode(word[v] >> (4 * i) & 15);
          for (int i = 0; i < 8; ++i) q[i] = decode(word[v] >> (4 * i) & 15);
#pragma unroll
          for (int t = 0; t < kTokens; ++t) {
            // Rows past M repeat the last one; their sums are not stored.
            //! fault row_zero wrong when M >= 2: int m = 0;
            int m = min(m0 + t, M - 1);
            uint4 xv = __ldg(reinterpret_cast<const uint4*>(x + (size_t)m * K + (size_t)c * 32) + v);
            //! fault vector_type compile: const half4* h = reinterpret_cast<const half4*>(&xv);
            const __half2* h = reinterpret_cast<const __half2*>(&xv);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              float2 f = __half22float2(h[i]);
              part[t] = fmaf(f.y, q[2 * i + 1], fmaf(f.x, q[2 * i], part[t]));
            }
          }
        }
#pragma unroll
        for (int t = 0; t < kTokens; ++t) acc[t] = fmaf(scale, part[t], acc[t]);
      }
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      // A butterfly: every lane ends with the sum.
      for (int d = 16; d > 0; d /= 2) acc[t] += __shfl_xor_sync(0xffffffffu, acc[t], d);
      if (lane == 0 && m0 + t < M) y[(size_t)(m0 + t) * N + n] = __float2half(acc[t]);
    }
  }
}

extern "C" cudaError_t int4_gemv(const __half* x, const uint8_t* w, const __half* s, __half* y, int M, int N, int K,
                                 int G, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (M < 1 || M > 16 || K % G || K % 32 || N % 8) return cudaErrorNotSupported;
  gemv_kernel<<<(N + kWarps - 1) / kWarps, kWarps * 32, 0, stream>>>(x, w, s, y, M, N, K, G);
  return cudaGetLastError();
}
