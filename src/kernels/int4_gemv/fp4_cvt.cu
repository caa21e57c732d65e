// Two e2m1 weights become a half2 by one conversion instruction, in the order in which x lies in memory, so that x
// needs no permutation. A block works along K for kRows rows at once: each x vector is loaded once for all of them.
//! idea the hardware's e2m1 conversion, a block per group of rows
//! says asm_operand: identifier "w" is undefined
//! says thread_name: identifier "thread" is undefined
//! says convert_args: too few arguments in function call
//! dtypes fp4
//! needs fp4_cvt
//! legal M <= kTokens
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

//! param 64 128 256
constexpr int kThreads = 128;
//! param 1 2 4 8
constexpr int kRows = 4;       // weight rows per block
//! param 1 2 4 8 16
constexpr int kTokens = 16;    // M at most
//! param 4 8
constexpr int kChain = 4;      // half2 products added before the sum moves to fp32
constexpr int kWarps = kThreads / 32;

static __device__ __forceinline__ __half2 bits(uint32_t v) { return *reinterpret_cast<__half2*>(&v); }

// The e2m1 pair in byte b of a word: low nibble to the low half.
static __device__ __forceinline__ __half2 convert(uint32_t word, int b) {
  uint32_t v;
  //! fault byte_step wrong: uint16_t pair = (uint16_t)(word >> (4 * b) & 0xFF);
  uint16_t pair = (uint16_t)(word >> (8 * b) & 0xFF);
  //! fault asm_operand compile: asm("{\n.reg .b8 t, u;\nmov.b16 {t, u}, %1;\ncvt.rn.f16x2.e2m1x2 %0, t;\n}" : "=r"(w) : "h"(pair));
  asm("{\n.reg .b8 t, u;\nmov.b16 {t, u}, %1;\ncvt.rn.f16x2.e2m1x2 %0, t;\n}" : "=r"(v) : "h"(pair));
  return bits(v);
}

//! kernel grid=cdiv(N,kRows) block=kThreads smem=4*kRows*kTokens*(kThreads/32) regs=min(255,28+7*kRows+kTokens*(10+16*kRows)/10) read=N*K/2+cdiv(N,kRows)*M*K*2+N*(K/G)*2 once=N*K/2+N*(K/G)*2+M*K*2 write=2*M*N inflight=kThreads*16*kRows ops=N*K+N*K*kTokens*(2*kChain+8)/(4*kChain)+N*K*M/(8*kRows) chain=cdiv(K,32*kThreads)*(LAT+LATL2+kRows*(60+14*kTokens))+25*5*kRows*kTokens+60
static __global__ __launch_bounds__(kThreads) void gemv_kernel(const __half* __restrict__ x,
                                                               const uint8_t* __restrict__ w,
                                                               const __half* __restrict__ s, __half* __restrict__ y,
                                                               int M, int N, int K, int G) {
  __shared__ float sums[kWarps][kRows * kTokens];
  int n0 = blockIdx.x * kRows;
  float acc[kRows][kTokens] = {};
  //! fault thread_name compile: for (int c = thread.x; c < K / 32; c += kThreads) {
  for (int c = threadIdx.x; c < K / 32; c += kThreads) {
    uint4 p[kRows];
    float scale[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      int n = min(n0 + r, N - 1);
      p[r] = __ldg(reinterpret_cast<const uint4*>(w + (size_t)n * (K / 2)) + c);
      //! fault group_128 wrong when G != 128 && K >= 128: scale[r] = __half2float(s[(size_t)n * (K / G) + c / 4]);
      scale[r] = __half2float(s[(size_t)n * (K / G) + c * 32 / G]);
    }
#pragma unroll
    for (int v = 0; v < 4; v += kChain / 4) {
      __half2 q[kRows][kChain];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int j = 0; j < kChain; ++j) {
          int i = v + j / 4;
          uint32_t word = i == 0 ? p[r].x : i == 1 ? p[r].y : i == 2 ? p[r].z : p[r].w;
          //! fault convert_args compile: q[r][j] = convert(word);
          q[r][j] = convert(word, j % 4);
        }
      }
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        if (t >= M) break;
        __half2 sum[kRows] = {};
#pragma unroll
        for (int j = 0; j < kChain / 4; ++j) {
          //! fault row_zero wrong when M >= 2: uint4 xv = __ldg(reinterpret_cast<const uint4*>(x) + c * 4 + v + j);
          uint4 xv = __ldg(reinterpret_cast<const uint4*>(x + (size_t)t * K) + c * 4 + v + j);
          const __half2* h = reinterpret_cast<const __half2*>(&xv);
#pragma unroll
          for (int i = 0; i < 4; ++i)
            for (int r = 0; r < kRows; ++r) sum[r] = __hfma2(h[i], q[r][4 * j + i], sum[r]);
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          float2 f = __half22float2(sum[r]);
          acc[r][t] = fmaf(scale[r], f.x + f.y, acc[r][t]);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      if (t >= M) break;
      for (int d = 16; d > 0; d /= 2) acc[r][t] += __shfl_xor_sync(0xffffffffu, acc[r][t], d);
      if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32][r * kTokens + t] = acc[r][t];
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kTokens; i += kThreads) {
    int n = n0 + i / kTokens, t = i % kTokens;
    if (t >= M || n >= N) continue;
    float sum = 0.f;
    //! fault warp_zero wrong when K > 1024: for (int g = 0; g < 1; ++g) sum += sums[g][i];
    for (int g = 0; g < kWarps; ++g) sum += sums[g][i];
    y[(size_t)t * N + n] = __float2half(sum);
  }
}

extern "C" cudaError_t int4_gemv(const __half* x, const uint8_t* w, const __half* s, __half* y, int M, int N, int K,
                                 int G, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (M < 1 || M > kTokens || K % G || K % 32 || N % 8) return cudaErrorNotSupported;
  gemv_kernel<<<(N + kRows - 1) / kRows, kThreads, 0, stream>>>(x, w, s, y, M, N, K, G);
  return cudaGetLastError();
}
