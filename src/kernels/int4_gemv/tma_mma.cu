// Each warp keeps a ring of pieces, 16 rows x kPiece k, that TMA fills: no register waits for memory and no barrier
// stands between a warp and its own ring. Blocks stay and take equal runs of tiles; ldmatrix hands the packed words,
// swizzled by the copy, out as mma fragments, so that a word costs a shift and four ANDs.
//! idea a TMA ring per warp and ldmatrix of packed nibbles
//! says copy_args: too few arguments in function call
//! says layout_member: class "Layout" has no member "scale"
//! says map_const: no suitable conversion function from "const CUtensorMap" to "const CUtensorMap *" exists
//! dtypes int4 fp4
//! needs tma
//! legal M <= kTokens
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

//! param 4 8 16
constexpr int kWarps = 16;
//! param 1 2 4 8 16
constexpr int kTokens = 1;   // rows of x held, M at most
//! param 256 512 1024 2048
constexpr int kPiece = 512;  // k of a piece
//! param 1 2 3 4 6 8
constexpr int kStages = 2;   // pieces of a warp's ring
//! param 1 2
constexpr int kBlocks = 1;   // blocks per SM
constexpr int kThreads = kWarps * 32;
constexpr int kSlot = kPiece * 8;              // bytes
constexpr int kBars = 1152;                    // bytes for 3 + kWarps * kStages barriers
constexpr int kBatch = kTokens > 2 ? 1 : 2;    // tiles between two barriers of the block
constexpr int kColumns = kTokens > 8 ? 2 : 1;  // tiles of 8 tokens
constexpr int kSums = kTokens > 2 ? kTokens : 2;
constexpr int kPitch = 20;                     // floats per token of a partial tile
//! dtype fp4: constexpr float kOffset = 0.f;
//! fault zero_point wrong when !fp4: constexpr float kOffset = -7.f * 0x1p-24f;
constexpr float kOffset = -8.f * 0x1p-24f;
//! dtype fp4: constexpr float kOdd = 1.f;
//! fault odd_scale wrong when !fp4: constexpr float kOdd = 1.f / 8.f;
constexpr float kOdd = 1.f / 16.f;  // odd nibbles keep their place, four bits up
//! dtype fp4: constexpr float kUnit = 0x1p14f;
constexpr float kUnit = 0x1p24f;

// Where things lie in shared memory, in bytes: the rings, the barriers, then these.
struct Layout {
  int xpitch, spitch, x, scales, parts, sums, bytes;
};

static __host__ __device__ __forceinline__ Layout layout(int K, int G) {
  Layout l;
  int groups = K / G, padded = (K + 63) / 64 * 64;
  l.xpitch = padded * 2 + 64;                        // two tokens start in different halves of the banks
  l.spitch = groups * 2 + (groups % 16 ? 0 : 16);    // so do eight rows of scales
  l.x = kBars + kWarps * kStages * kSlot;
  l.scales = l.x + kTokens * l.xpitch;
  l.parts = l.scales + 2 * kBatch * 16 * l.spitch;
  l.sums = l.parts + 2 * kBatch * kWarps * kTokens * kPitch * 4;
  l.bytes = l.sums + padded / 64 * (256 / G) * kSums;
  return l;
}

// Nibbles n and n + 4 of a word as two halves: subnormals q, or 16 q where n is odd; e2m1 2^14 times too small.
template <int n>
static __device__ __forceinline__ uint32_t pair(uint32_t w) {
  //! dtype fp4: return (w << (12 - 4 * n) & 0x80008000u) | (w << (12 - 4 * n) >> 3 & 0x0E000E00u);
  return w >> (n / 2 * 8) & (n % 2 ? 0x00F000F0u : 0x000F000Fu);
}

static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ uint32_t shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

static __device__ __forceinline__ void expect(uint64_t* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(bar)), "r"(bytes) : "memory");
}

// A box of 16 rows x 256 k, rows of 128 bytes, their 16-byte units swizzled by the row; what is past the ends is zero.
static __device__ __forceinline__ void copy_box(uint8_t* to, const CUtensorMap* map, int column, int row,
                                                uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared(to)), "l"(map), "r"(column), "r"(row), "r"(shared(bar)) : "memory");
}

static __device__ __forceinline__ void copy(uint8_t* to, const void* from, int bytes, uint64_t* bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared(to)), "l"(from), "r"(bytes), "r"(shared(bar))
               : "memory");
}

static __device__ __forceinline__ void wait(uint64_t* bar, int parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(shared(bar)), "r"(parity) : "memory");
}

//! kernel grid=min(cdiv(N,16),SMS*kBlocks) block=32*kWarps smem=1152+kWarps*kStages*kPiece*8+kTokens*(cdiv(K,64)*128+64)+32*(1+(kTokens<3))*(K/G*2+(K/G%16?0:16)+5*kWarps*kTokens)+cdiv(K,64)*(256/G)*max(2,kTokens) regs=min(kTokens>8?128:kWarps<8?120:105,65536/(32*kWarps*kBlocks)) read=N*K/2+N*(K/G)*2+min(cdiv(N,16),SMS*kBlocks)*M*K*2 once=N*K/2+N*(K/G)*2+M*K*2 write=2*M*N inflight=kWarps*kStages*kPiece*8 ops=N*K*(20+(kTokens>8)*6+128/G+2880/kPiece)/16+SMS*kBlocks*M*K*5 tc16=2*N*K*(kTokens>8?16:8) eff=45 chain=2*LAT+LATL2+200+cdiv(cdiv(N,16),SMS*kBlocks)*(cdiv(cdiv(K,kPiece),kWarps)*(LAT/kStages+2*kPiece)+100)
template <int G>
static __global__ __launch_bounds__(kThreads, kBlocks) void gemv_kernel(const __grid_constant__ CUtensorMap w,
                                                                        const __half* __restrict__ x,
                                                                        const __half* __restrict__ s,
                                                                        __half* __restrict__ y, int M, int N, int K) {
  extern __shared__ __align__(1024) uint8_t smem[];
  constexpr int kStep = G > 64 ? G : 64;  // k between two looks at the sums
  const Layout l = layout(K, G);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  int groups = K / G, tiles = (N + 15) / 16, pieces = (K + kPiece - 1) / kPiece;
  int first = (int)((int64_t)tiles * blockIdx.x / gridDim.x);
  int last = (int)((int64_t)tiles * (blockIdx.x + 1) / gridDim.x);
  uint64_t* ready = reinterpret_cast<uint64_t*>(smem + kWarps * kStages * kSlot);  // x, 2 batches of scales, rings
  uint64_t* full = ready + 3 + warp * kStages;
  uint8_t* ring = smem + warp * kStages * kSlot;
  float* sums = reinterpret_cast<float*>(smem + l.sums);    // [groups][kSums], times kOffset
  float* parts = reinterpret_cast<float*>(smem + l.parts);  // [2][kBatch][kWarps][kTokens][kPitch]

  if (lane == 0) {
    for (int i = warp ? 3 + warp * kStages : 0; i < 3 + (warp + 1) * kStages; ++i)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared(ready + i)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncwarp();

  // The pieces of the block's tiles form a line that is dealt to the warps in turn.
  auto advance = [&](int& tile, int& piece) {
    for (piece += kWarps; piece >= pieces; piece -= pieces) ++tile;
  };
  int tile = first + warp / pieces, piece = warp % pieces, ahead = tile, next = piece;
  auto start = [&](int stage) {
    if (ahead >= last) return;
    if (lane == 0) {
      expect(full + stage, kSlot);
#pragma unroll
      for (int b = 0; b < kPiece / 256; ++b)
        //! fault map_const compile: copy_box(ring + stage * kSlot + b * 2048, w, next * (kPiece / 2) + b * 128, ahead * 16, full + stage);
        copy_box(ring + stage * kSlot + b * 2048, &w, next * (kPiece / 2) + b * 128, ahead * 16, full + stage);
    }
    advance(ahead, next);
  };
  auto start_scales = [&](int from, int turn) {
    int rows = min(min(from + kBatch, last) * 16, N) - from * 16;
    //! fault layout_member compile: uint8_t* to = smem + l.scale + turn * kBatch * 16 * l.spitch;
    uint8_t* to = smem + l.scales + turn * kBatch * 16 * l.spitch;
    const __half* at = s + (size_t)from * 16 * groups;
    if (lane == 0) expect(ready + 1 + turn, rows * groups * 2);
    if (groups % 16) {  // as they come: the rows need not be multiples of 16 bytes
      if (lane == 0) copy(to, at, rows * groups * 2, ready + 1 + turn);
    } else {
      for (int r = lane; r < rows; r += 32)
        copy(to + r * l.spitch, at + (size_t)r * groups, groups * 2, ready + 1 + turn);
    }
  };
  if (warp == 0) {
    if (lane == 0) expect(ready, M * K * 2);
    //! fault copy_args compile: if (lane < M) copy(smem + l.x + lane * l.xpitch, x + (size_t)lane * K, K * 2);
    //! fault row_zero wrong when M >= 2: if (lane < M) copy(smem + l.x + lane * l.xpitch, x, K * 2, ready);
    if (lane < M) copy(smem + l.x + lane * l.xpitch, x + (size_t)lane * K, K * 2, ready);
    start_scales(first, 0);
    if (first + kBatch < last) start_scales(first + kBatch, 1);
  }
  for (int i = 0; i < kStages; ++i) start(i);
  __syncthreads();

  // x is put into the nibbles' order where it lies: values (0,4), (2,6) meet the even ones, (1,5), (3,7) the odd ones.
  wait(ready, 0);
  int units = (K + 63) / 64 * 8;
  for (int i0 = 0; i0 < M * units; i0 += kThreads) {
    int i = i0 + threadIdx.x, m = i / units, u = i % units;
    uint4 a = make_uint4(0, 0, 0, 0), b;
    uint4* at = reinterpret_cast<uint4*>(smem + l.x + m * l.xpitch) + u;
    if (m < M && u * 8 < K) a = *at;
    float sum = 0.f;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint32_t h = j == 0 ? a.x : j == 1 ? a.y : j == 2 ? a.z : a.w;
      float2 f = __half22float2(*reinterpret_cast<__half2*>(&h));
      sum += f.x + f.y;
    }
    for (int d = G / 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    b.x = __byte_perm(a.x, a.z, 0x5410);
    //! fault plain_order wrong: b.y = a.y;
    b.y = __byte_perm(a.y, a.w, 0x5410);
    b.z = __byte_perm(a.x, a.z, 0x7632);
    b.w = __byte_perm(a.y, a.w, 0x7632);
    if (m < M) {
      *at = b;
      if (u % (G / 8) == 0) sums[u / (G / 8) * kSums + m] = kOffset * sum;
    }
  }
  __syncthreads();

  const uint8_t* xl = smem + l.x + min(g, kTokens - 1) * l.xpitch + t * 16;
  const float* zl = sums + min(2 * t, kSums - 2);
  //! fault no_swizzle wrong: uint32_t words = shared(ring) + lane % 16 * 128, swizzle = lane / 16 * 16;
  uint32_t words = shared(ring) + lane % 16 * 128, swizzle = (lane % 8 ^ lane / 16) * 16;
  int stage = 0, phase = 0, turn = 0;
  for (int t0 = first; t0 < last; t0 += kBatch, turn ^= 1) {
    wait(ready + 1 + turn, (t0 - first) / (2 * kBatch) & 1);
    int end = min(t0 + kBatch, last);
    for (int now = t0; now < end; ++now) {
      int o = turn * kBatch + now - t0;
      //! fault scale_row wrong: const __half* sl = reinterpret_cast<const __half*>(smem + l.scales + o * 16 * l.spitch);
      const __half* sl = reinterpret_cast<const __half*>(smem + l.scales + (o * 16 + g) * l.spitch);
      const __half* sh = sl + 8 * (l.spitch / 2);
      float acc[kColumns][4] = {};
      while (tile == now) {
        wait(full + stage, phase);
        int k0 = piece * kPiece, steps = (min(kPiece, K - k0) + kStep - 1) / kStep;
#pragma unroll 2
        for (int i = 0; i < steps; ++i) {
          int k = k0 + i * kStep, at = i * (kStep / 2);
          uint32_t p[kStep / 64][4];
#pragma unroll
          for (int j = 0; j < kStep / 64; ++j)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(p[j][0]), "=r"(p[j][1]), "=r"(p[j][2]), "=r"(p[j][3])
                         : "r"(words + stage * kSlot + at / 128 * 2048 + (swizzle ^ (at % 128 + j * 32))));
#pragma unroll
          for (int h = 0; h < kStep / G; ++h) {
            int group = k / G + h, held = min(group, groups - 1);  // past the end x is zero
            float up = __half2float(sl[held]), low = __half2float(sh[held]);
            float even[kColumns][4], odd[kColumns][4] = {};
#pragma unroll
            for (int c = 0; c < kColumns; ++c) {
              float2 z = *reinterpret_cast<const float2*>(zl + group * kSums + 8 * c);
              even[c][0] = even[c][2] = z.x;
              even[c][1] = even[c][3] = z.y;
            }
#pragma unroll
            for (int j = h * (G / 32); j < (h + 1) * (G / 32); ++j) {
              uint32_t u = p[j / 2][j % 2 * 2], v = p[j / 2][j % 2 * 2 + 1];
              uint32_t a[4] = {pair<0>(u), pair<0>(v), pair<2>(u), pair<2>(v)};
              //! fault rows_crossed wrong: uint32_t b[4] = {pair<1>(v), pair<1>(u), pair<3>(v), pair<3>(u)};
              uint32_t b[4] = {pair<1>(u), pair<1>(v), pair<3>(u), pair<3>(v)};
#pragma unroll
              for (int c = 0; c < kColumns; ++c) {
                uint4 xv = *reinterpret_cast<const uint4*>(xl + 8 * c * l.xpitch + 2 * k + j * 64);
                mma(even[c], a, xv.x, xv.y);
                mma(odd[c], b, xv.z, xv.w);
              }
            }
#pragma unroll
            for (int c = 0; c < kColumns; ++c) {
#pragma unroll
              for (int e = 0; e < 4; ++e)
                acc[c][e] = fmaf(e < 2 ? up : low, fmaf(odd[c][e], kOdd, even[c][e]), acc[c][e]);
            }
          }
        }
        __syncwarp();  // every lane has read the piece: its place can be filled again
        start(stage);
        advance(tile, piece);
        if (++stage == kStages) {
          stage = 0;
          phase ^= 1;
        }
      }
      float* part = parts + (o * kWarps + warp) * kTokens * kPitch;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          int m = 8 * c + 2 * t + e % 2;
          if (m < kTokens) part[m * kPitch + g + e / 2 * 8] = acc[c][e];
        }
      }
    }
    __syncthreads();
    if (warp == 0 && t0 + 2 * kBatch < last) start_scales(t0 + 2 * kBatch, turn);
    for (int i = threadIdx.x; i < kBatch * 16 * kTokens; i += kThreads) {
      int r = i % 16, m = i / 16 % kTokens, o = i / (16 * kTokens), n = (t0 + o) * 16 + r;
      const float* from = parts + ((turn * kBatch + o) * kWarps * kTokens + m) * kPitch + r;
      float sum = 0.f;
#pragma unroll
      //! fault part_zero wrong: for (int p = 1; p < kWarps; ++p) sum += from[p * kTokens * kPitch];
      for (int p = 0; p < kWarps; ++p) sum += from[p * kTokens * kPitch];
      if (m < M && n < N && t0 + o < end) y[(size_t)m * N + n] = __float2half(sum * kUnit);
    }
  }
}

template <int G>
static cudaError_t launch(const __half* x, const uint8_t* w, const __half* s, __half* y, int M, int N, int K,
                          cudaStream_t stream) {
  int device, sms, bytes = layout(K, G).bytes;
  cudaError_t e = cudaGetDevice(&device);
  if (e == cudaSuccess) e = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  if (e == cudaSuccess) e = cudaFuncSetAttribute(gemv_kernel<G>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (e != cudaSuccess) return e;
  const cuuint64_t dims[2] = {(cuuint64_t)K / 2, (cuuint64_t)N}, stride[1] = {(cuuint64_t)K / 2};
  const cuuint32_t box[2] = {128, 16}, one[2] = {1, 1};
  CUtensorMap map;
  if (cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<uint8_t*>(w), dims, stride, box, one,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    return cudaErrorInvalidValue;
  int tiles = (N + 15) / 16, blocks = sms * kBlocks;
  gemv_kernel<G><<<blocks < tiles ? blocks : tiles, kThreads, bytes, stream>>>(map, x, s, y, M, N, K);
  return cudaGetLastError();
}

extern "C" cudaError_t int4_gemv(const __half* x, const uint8_t* w, const __half* s, __half* y, int M, int N, int K,
                                 int G, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (M < 1 || M > kTokens || K % G || K % 32 || N % 8) return cudaErrorNotSupported;
  if (G != 32 && G != 64 && G != 128) return cudaErrorNotSupported;
  return (G == 128 ? launch<128> : G == 64 ? launch<64> : launch<32>)(x, w, s, y, M, N, K, stream);
}
