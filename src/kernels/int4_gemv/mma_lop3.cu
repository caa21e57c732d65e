// One AND turns two nibbles into two fp16 subnormals q * 2^-24, which tensor cores multiply exactly: weights go from
// registers straight into the rows of mma fragments, tokens are the columns, and x is permuted to the nibbles' order
// when it is staged. Sums of x remove the offset; each warp keeps kAhead blocks of 16 rows x 128 k on their way.
//! idea subnormal nibbles in mma fragments
//! says shift_type: expression must have integral or unscoped enum type
//! says mma_args: too few arguments in function call
//! says stage_target: expression must be a modifiable lvalue
//! dtypes int4 fp4
//! legal M <= kTokens
//! legal kSplit <= kWarps
//! legal kTokens * K <= 98304
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

//! param 4 8 16
constexpr int kWarps = 8;
//! param 1 2 4 8 16
constexpr int kSplit = 4;   // warps that share the k of 16 rows
//! param 1 2 4 8 16
constexpr int kTokens = 4;  // rows of x held, M at most
//! param 1 2 4 6
constexpr int kAhead = 4;   // blocks of 128 k on their way per warp
//! param 1 2 3
constexpr int kBlocks = 2;  // blocks per SM
constexpr int kThreads = kWarps * 32;
constexpr int kSlots = kSplit < kWarps ? kWarps / kSplit : 1;  // tiles of 16 rows per block
constexpr int kColumns = kTokens > 8 ? 2 : 1;  // tiles of 8 tokens
constexpr int kSums = kTokens > 2 ? kTokens : 2;
constexpr int kPitch = 20;  // floats per token of a partial tile
//! dtype fp4: constexpr float kOffset = 0.f;
//! fault zero_point wrong when !fp4: constexpr float kOffset = -7.f * 0x1p-24f;
constexpr float kOffset = -8.f * 0x1p-24f;
//! dtype fp4: constexpr float kOdd = 1.f;
//! fault odd_scale wrong when !fp4: constexpr float kOdd = 1.f / 8.f;
constexpr float kOdd = 1.f / 16.f;  // odd nibbles keep their place, four bits up
//! dtype fp4: constexpr float kUnit = 0x1p14f;
constexpr float kUnit = 0x1p24f;

// Nibbles n and n + 4 of a word as two halves: subnormals q, or 16 q where n is odd; e2m1 2^14 times too small.
template <int n>
static __device__ __forceinline__ uint32_t pair(uint32_t w) {
  //! dtype fp4: return (w << (12 - 4 * n) & 0x80008000u) | (w << (12 - 4 * n) >> 3 & 0x0E000E00u);
  //! fault shift_type compile when !fp4: return w >> (n / 2 * 8.f) & (n % 2 ? 0x00F000F0u : 0x000F000Fu);
  return w >> (n / 2 * 8) & (n % 2 ? 0x00F000F0u : 0x000F000Fu);
}

static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A lane's share of 16 rows x 128 k: four words of rows g and g + 8, the lanes t of a row side by side in each group.
template <int G>
struct Piece {
  uint32_t w[2][4];
  __half s[2][128 / G];
};

template <int G>
static __device__ __forceinline__ void fetch(Piece<G>& p, const uint8_t* w, size_t wstep, const __half* s,
                                             size_t sstep, int block, int groups) {
  constexpr int kWords = G / 32;  // of a row's group per lane
#pragma unroll
  for (int h = 0; h < 128 / G; ++h) {
    int g = min(block * (128 / G) + h, groups - 1);  // past the end x is zero
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint8_t* at = w + r * wstep + (size_t)g * (G / 2);
      uint32_t* to = &p.w[r][h * kWords];
      if constexpr (kWords == 4)
        asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "l"(at));
      else if constexpr (kWords == 2)
        asm volatile("ld.global.nc.L2::128B.v2.u32 {%0,%1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "l"(at));
      else
        asm volatile("ld.global.nc.L2::128B.u32 %0, [%1];" : "=r"(to[0]) : "l"(at));
      p.s[r][h] = __ldg(s + r * sstep + g);
    }
  }
}

//! kernel grid=cdiv(cdiv(N,16*kWarps/kSplit),cdiv(cdiv(N,16*kWarps/kSplit),SMS*kBlocks)) block=32*kWarps smem=cdiv(K,128)*(256*kTokens+512/G*max(2,kTokens))+(kSplit>1?kWarps*kTokens*160:0) regs=min(40+20*kAhead,65536/(32*kWarps*kBlocks)) read=N*K/2+N*(K/G)*2+min(cdiv(N,16*kWarps/kSplit),SMS*kBlocks)*M*K*2 once=N*K/2+N*(K/G)*2+M*K*2 write=2*M*N inflight=kWarps*1024*kAhead ops=N*K*(20+kTokens/8+128/G)/16 tc16=2*N*K*(kTokens>8?16:8) eff=45 chain=LAT+LATL2+200+cdiv(cdiv(N,16*kWarps/kSplit),SMS*kBlocks)*(cdiv(cdiv(K,128),kSplit*kAhead)*(LAT+kAhead*150)+90)
template <int G>
static __global__ __launch_bounds__(kThreads, kBlocks) void gemv_kernel(const __half* __restrict__ x,
                                                                        const uint8_t* __restrict__ w,
                                                                        const __half* __restrict__ s,
                                                                        __half* __restrict__ y, int M, int N, int K) {
  extern __shared__ uint4 xs[];  // [blocks of k][4 words][kTokens][4 lanes]
  constexpr int kWords = G / 32;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  int slot = warp / kSplit, split = warp % kSplit;
  int groups = K / G, blocks = (K + 127) / 128, tiles = (N + 15) / 16, slabs = (tiles + kSlots - 1) / kSlots;
  // Items per warp and tile; those past the end are skipped, so that the ring turns a whole number of times.
  int items = ((blocks + kSplit - 1) / kSplit + kAhead - 1) / kAhead * kAhead;
  float* sums = reinterpret_cast<float*>(xs + (size_t)blocks * 16 * kTokens);  // [groups][kSums], times kOffset
  float* parts = sums + blocks * (128 / G) * kSums;                            // [2][kWarps][kTokens][kPitch]

  const uint8_t* wp = nullptr;
  const __half* sp = nullptr;
  size_t wstep = 0, sstep = 0;
  auto aim = [&](int slab) {
    int n = min(slab * kSlots + slot, tiles - 1) * 16;
    wp = w + (size_t)(n + g) * (K / 2) + t * (4 * kWords);
    //! fault scale_row wrong: sp = s;
    sp = s + (size_t)(n + g) * groups;
    int down = n + 8 < N ? 8 : 0;  // N is a multiple of 8: the lower half is there or is not
    wstep = (size_t)down * (K / 2);
    sstep = (size_t)down * groups;
  };
  Piece<G> ring[kAhead];
  aim(blockIdx.x);
#pragma unroll
  for (int i = 0; i < kAhead; ++i)
    if (split + i * kSplit < blocks) fetch<G>(ring[i], wp, wstep, sp, sstep, split + i * kSplit, groups);

  int units = blocks * 16;
  for (int i0 = 0; i0 < kTokens * units; i0 += kThreads) {
    int i = i0 + threadIdx.x, m = i / units, u = i % units;
    uint4 a = make_uint4(0, 0, 0, 0), b;
    //! fault row_zero wrong when M >= 2: if (m < M && u * 8 < K) a = __ldg(reinterpret_cast<const uint4*>(x) + u);
    if (m < M && u * 8 < K) a = __ldg(reinterpret_cast<const uint4*>(x + (size_t)m * K) + u);
    float sum = 0.f;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint32_t h = j == 0 ? a.x : j == 1 ? a.y : j == 2 ? a.z : a.w;
      float2 f = __half22float2(*reinterpret_cast<__half2*>(&h));
      sum += f.x + f.y;
    }
    for (int d = G / 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    // Values (0,4), (2,6) meet the even nibbles, (1,5), (3,7) the odd ones.
    b.x = __byte_perm(a.x, a.z, 0x5410);
    //! fault plain_order wrong: b.y = a.y;
    b.y = __byte_perm(a.y, a.w, 0x5410);
    b.z = __byte_perm(a.x, a.z, 0x7632);
    b.w = __byte_perm(a.y, a.w, 0x7632);
    if (i < kTokens * units) {
      int v = u % 16, j = v / (4 * kWords) * kWords + v % kWords, l = v % (4 * kWords) / kWords;
      //! fault stage_target compile: xs + ((u / 16 * 4 + j) * kTokens + m) * 4 + l = b;
      xs[((u / 16 * 4 + j) * kTokens + m) * 4 + l] = b;
      if (u % (G / 8) == 0) sums[u / (G / 8) * kSums + m] = kOffset * sum;
    }
  }
  __syncthreads();

  const uint4* xl = xs + min(g, kTokens - 1) * 4 + t;
  const float* zl = sums + min(2 * t, kSums - 2);
  int turn = 0;
  for (int slab = blockIdx.x; slab < slabs; slab += gridDim.x) {
    float acc[kColumns][4] = {};
    bool more = true;
    for (int i0 = 0; i0 < items; i0 += kAhead) {
      int next = i0 + kAhead;
      if (next == items) {
        next = 0;
        more = slab + gridDim.x < slabs;
        if (more) aim(slab + gridDim.x);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        int block = split + (i0 + i) * kSplit;
        if (block < blocks) {
#pragma unroll
          for (int h = 0; h < 128 / G; ++h) {
            float even[kColumns][4], odd[kColumns][4] = {};
#pragma unroll
            for (int c = 0; c < kColumns; ++c) {
              float2 z = *reinterpret_cast<const float2*>(zl + (block * (128 / G) + h) * kSums + 8 * c);
              even[c][0] = even[c][2] = z.x;
              even[c][1] = even[c][3] = z.y;
            }
#pragma unroll
            for (int j = h * kWords; j < h * kWords + kWords; ++j) {
              uint32_t up = ring[i].w[0][j], low = ring[i].w[1][j];
              uint32_t a[4] = {pair<0>(up), pair<0>(low), pair<2>(up), pair<2>(low)};
              //! fault rows_crossed wrong: uint32_t b[4] = {pair<1>(low), pair<1>(up), pair<3>(low), pair<3>(up)};
              uint32_t b[4] = {pair<1>(up), pair<1>(low), pair<3>(up), pair<3>(low)};
#pragma unroll
              for (int c = 0; c < kColumns; ++c) {
                uint4 xv = xl[((block * 4 + j) * kTokens + 8 * c) * 4];
                mma(even[c], a, xv.x, xv.y);
                //! fault mma_args compile: mma(odd[c], b, xv.z);
                mma(odd[c], b, xv.z, xv.w);
              }
            }
            float up = __half2float(ring[i].s[0][h]), low = __half2float(ring[i].s[1][h]);
#pragma unroll
            for (int c = 0; c < kColumns; ++c) {
              acc[c][0] = fmaf(up, fmaf(odd[c][0], kOdd, even[c][0]), acc[c][0]);
              acc[c][1] = fmaf(up, fmaf(odd[c][1], kOdd, even[c][1]), acc[c][1]);
              acc[c][2] = fmaf(low, fmaf(odd[c][2], kOdd, even[c][2]), acc[c][2]);
              acc[c][3] = fmaf(low, fmaf(odd[c][3], kOdd, even[c][3]), acc[c][3]);
            }
          }
        }
        int ahead = split + (next + i) * kSplit;
        if (more && ahead < blocks) fetch<G>(ring[i], wp, wstep, sp, sstep, ahead, groups);
      }
    }
    float* part = parts + (size_t)(turn * kWarps + warp) * kTokens * kPitch;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        int m = 8 * c + 2 * t + e % 2, r = g + e / 2 * 8, n = (slab * kSlots + slot) * 16 + r;
        if constexpr (kSplit > 1) {
          if (m < kTokens) part[m * kPitch + r] = acc[c][e];
        } else {
          if (m < M && n < N) y[(size_t)m * N + n] = __float2half(acc[c][e] * kUnit);
        }
      }
    }
    if constexpr (kSplit > 1) {
      __syncthreads();
      for (int i = threadIdx.x; i < kSlots * 16 * kTokens; i += kThreads) {
        int r = i % 16, m = i / 16 % kTokens, o = i / (16 * kTokens), n = (slab * kSlots + o) * 16 + r;
        const float* from = parts + ((size_t)(turn * kWarps + o * kSplit) * kTokens + m) * kPitch + r;
        float sum = 0.f;
#pragma unroll
        //! fault one_part wrong when kSplit >= 2 && K > 128: for (int p = 0; p < kSplit - 1; ++p) sum += from[p * kTokens * kPitch];
        for (int p = 0; p < kSplit; ++p) sum += from[p * kTokens * kPitch];
        if (m < M && n < N) y[(size_t)m * N + n] = __float2half(sum * kUnit);
      }
      turn ^= 1;  // the next tile's parts go elsewhere: one barrier a tile is enough
    }
  }
}

template <int G>
static cudaError_t launch(const __half* x, const uint8_t* w, const __half* s, __half* y, int M, int N, int K,
                          cudaStream_t stream) {
  int device, sms;
  cudaError_t e = cudaGetDevice(&device);
  if (e == cudaSuccess) e = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  if (e != cudaSuccess) return e;
  int blocks = (K + 127) / 128, slabs = (N + 16 * kSlots - 1) / (16 * kSlots);
  int rounds = (slabs + sms * kBlocks - 1) / (sms * kBlocks);
  size_t smem = (size_t)blocks * (256 * kTokens + 512 / G * kSums) + (kSplit > 1 ? kWarps * kTokens * kPitch * 8 : 0);
  e = cudaFuncSetAttribute(gemv_kernel<G>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
  if (e != cudaSuccess) return e;
  // Every block works on the same number of tiles, or one fewer.
  gemv_kernel<G><<<(slabs + rounds - 1) / rounds, kThreads, smem, stream>>>(x, w, s, y, M, N, K);
  return cudaGetLastError();
}

extern "C" cudaError_t int4_gemv(const __half* x, const uint8_t* w, const __half* s, __half* y, int M, int N, int K,
                                 int G, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (kSplit > kWarps || M < 1 || M > kTokens || kTokens * K > 98304) return cudaErrorNotSupported;
  if (K % G || K % 32 || N % 8) return cudaErrorNotSupported;
  if (G != 32 && G != 64 && G != 128) return cudaErrorNotSupported;
  return (G == 128 ? launch<128> : G == 64 ? launch<64> : launch<32>)(x, w, s, y, M, N, K, stream);
}
