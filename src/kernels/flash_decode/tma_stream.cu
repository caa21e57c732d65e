// Attention for one token as one stream of equal work per block: all tiles of all (batch, KV head) pairs form a line
// that is cut into equal runs, so no SM idles whatever B, HKV and S are. A producer warp keeps a ring of kStages tiles
// filled by TMA; consumer warps multiply 16 keys by 8 heads with mma.sync. Only a pair that is cut by a run needs the
// second kernel, which joins the pieces.
//! idea equal runs of TMA tiles per block and mma.sync consumers
//! says barrier_args: too few arguments in function call
//! says map_by_value: no suitable conversion function from "const CUtensorMap" to "const CUtensorMap *" exists
//! says slot_name: identifier "stage" is undefined
//! says attribute_name: identifier "cudaFuncAttributeMaxSharedMemorySize" is undefined
//! dtypes fp16 bf16
//! needs tma
//! legal D == 64 || D == 128 || D == 256
//! legal kTile % (16 * kWarps) == 0
//! kernel grid=min(SMS*kPerSm,B*HKV*cdiv(H/HKV,kRows)*cdiv(S,kTile)) block=32*(kWarps+1) smem=1024+kStages*4*kTile*D+cdiv(kRows*(4*D+8*kWarps)+16*kStages,1024)*1024 regs=min(kWarps==8&&D*kRows<4096?168:999,20+D*kRows*13/125) read=4*S*D*B*HKV*cdiv(H/HKV,kRows) inflight=(kStages-1)*4*kTile*D ops=B*HKV*cdiv(H/HKV,kRows)*S*(D+22*kRows) chain=2*LAT+S*B*HKV/(kTile*SMS*kPerSm)*(D*kTile/kWarps/4+330)
//! kernel grid=B*H block=128 smem=0 regs=40 read=8*SMS*kPerSm*kRows*D write=2*B*H*D inflight=2048 ops=B*H*7680+16*SMS*kPerSm*kRows*D chain=3*LATL2+(40+LATL2/4)*cdiv(SMS*kPerSm,B*HKV*cdiv(H/HKV,kRows))
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cuda.h>
#include <math.h>
#include <stdint.h>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;

//! param 2 4 8
constexpr int kWarps = 4;  // consumer warps
//! param 8 16
constexpr int kRows = 8;  // query heads per pass, 8 columns of mma each
//! param 32 64 128
constexpr int kTile = 64;  // keys per stage
//! param 2 3 4 6
constexpr int kStages = 4;
//! param 1 2 3
constexpr int kPerSm = 1;  // blocks per SM
constexpr float kNoKey = -1e30f;  // finite, so that the difference of two empty maxima is 0
static_assert(kTile % (16 * kWarps) == 0, "a warp takes whole groups of 16 keys");

template <int D>
struct Smem {
  alignas(1024) elem k[kStages][D / 64][kTile][64], v[kStages][D / 64][kTile][64];  // 128-byte rows, swizzled
  float o[kRows][D], m[kWarps][kRows], l[kWarps][kRows];
  uint64_t full[kStages], empty[kStages];
};

static __device__ __forceinline__ uint32_t smem_u32(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void bar_init(uint64_t *b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_u32(b)), "r"(n) : "memory");
}
static __device__ __forceinline__ void bar_expect(uint64_t *b, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_u32(b)), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void bar_arrive(uint64_t *b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_u32(b)) : "memory");
}
static __device__ __forceinline__ void bar_wait(uint64_t *b, uint32_t phase) {
  uint32_t done = 0;
  while (!done)
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done) : "r"(smem_u32(b)), "r"(phase) : "memory");
}
static __device__ __forceinline__ void tma_load(void *dst, const CUtensorMap *map, int x, int y, uint64_t *bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          smem_u32(dst)), "l"(map), "r"(x), "r"(y), "r"(smem_u32(bar)) : "memory");
}
static __device__ __forceinline__ void ldmatrix(uint32_t (&r)[4], const elem *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)) : "memory");
}
static __device__ __forceinline__ void ldmatrix_trans(uint32_t (&r)[4], const elem *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)) : "memory");
}
static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      //! dtype bf16: "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
static __device__ __forceinline__ uint32_t transpose(uint32_t x) {  // an 8 x 8 matrix of 16-bit values over the warp
  uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
static __device__ __forceinline__ uint32_t pack(float lo, float hi) {
  //! dtype bf16: const __nv_bfloat162 h = __floats2bfloat162_rn(lo, hi);
  const __half2 h = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<const uint32_t *>(&h);
}
static __device__ __forceinline__ void consumers_sync() {
  asm volatile("bar.sync 1, %0;" ::"n"(32 * kWarps) : "memory");
}
// Block i takes tiles run_start(i) ... run_start(i + 1) - 1; block_of is its inverse.
static __device__ __forceinline__ int run_start(int i, int tiles, int blocks) {
  return (int)((long long)i * tiles / blocks);
}
static __device__ __forceinline__ int block_of(int t, int tiles, int blocks) {
  return (int)((((long long)t + 1) * blocks - 1) / tiles);
}

template <int D>
static __global__ void __launch_bounds__(32 * (kWarps + 1))
    stream_kernel(const __grid_constant__ CUtensorMap k_map, const __grid_constant__ CUtensorMap v_map,
                  const elem *__restrict__ q, elem *__restrict__ o, float *part_o, float2 *part_ml, int H, int HKV,
                  int S, int items, float scale) {
  constexpr int kCols = kRows / 8;
  constexpr int kGroups = kTile / (16 * kWarps);  // groups of 16 keys per warp and tile
  extern __shared__ unsigned char raw[];
  Smem<D> &sm = *reinterpret_cast<Smem<D> *>(raw + (1024 - smem_u32(raw) % 1024) % 1024);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  const int group = H / HKV, head_blocks = (group + kRows - 1) / kRows;
  const int per_item = (S + kTile - 1) / kTile, tiles = items * per_item;
  const int t0 = run_start(blockIdx.x, tiles, gridDim.x), t1 = run_start(blockIdx.x + 1, tiles, gridDim.x);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      bar_init(&sm.full[i], 1);
      //! fault barrier_args compile: bar_init(&sm.empty[i]);
      bar_init(&sm.empty[i], kWarps);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  if (warp == kWarps) {  // producer; a tile may run past S into the next pair, whose keys are masked
    if (lane == 0)
      for (int t = t0; t < t1; ++t) {
        const int n = t - t0, slot = n % kStages;
        const int y = t / per_item / head_blocks * S + t % per_item * kTile;
        bar_wait(&sm.empty[slot], n / kStages % 2 ^ 1);
        bar_expect(&sm.full[slot], 2 * kTile * D * sizeof(elem));
        for (int b = 0; b < D / 64; ++b) {
          tma_load(sm.k[slot][b], &k_map, 64 * b, y, &sm.full[slot]);
          //! fault map_by_value compile: tma_load(sm.v[slot][b], v_map, 64 * b, y, &sm.full[slot]);
          tma_load(sm.v[slot][b], &v_map, 64 * b, y, &sm.full[slot]);
        }
      }
    return;
  }

  const int k_row = lane % 16, k_unit = lane / 16;                         // K as first operand
  const int v_row = lane % 8 + lane / 16 * 8, v_unit = lane / 8 % 2;       // V read transposed
  uint32_t qb[kCols][D / 16][2];
  float acc[D / 16][kCols][4], m[kCols][2], l[kCols][2];
  for (int t = t0; t < t1; ++t) {
    const int item = t / per_item, tile = t % per_item, pair = item / head_blocks;
    const int first = item % head_blocks * kRows, heads = min(kRows, group - first);
    //! fault kv_head_modulo wrong when HKV > 1 && HKV < H: const int row0 = pair / HKV * H + pair % HKV + first * HKV, row_step = HKV;
    const int row0 = pair / HKV * H + pair % HKV * group + first, row_step = 1;
    if (t == t0 || tile == 0) {  // another pair: its queries, columns past the last head repeat it
#pragma unroll
      for (int i = 0; i < kCols * D / 8; ++i) {
        const int r = i / (D / 8), s = i / 2 % (D / 16), row = row0 + min(g + 8 * r, heads - 1) * row_step;
        qb[r][s][i % 2] = *reinterpret_cast<const uint32_t *>(q + (size_t)row * D + 16 * s + 8 * (i % 2) + 2 * c);
      }
#pragma unroll
      for (int i = 0; i < D / 4 * kCols; ++i) acc[i / 4 / kCols][i / 4 % kCols][i % 4] = 0.0f;
#pragma unroll
      for (int i = 0; i < 2 * kCols; ++i) m[i / 2][i % 2] = kNoKey, l[i / 2][i % 2] = 0.0f;
    }
    const int n = t - t0, slot = n % kStages;
    bar_wait(&sm.full[slot], n / kStages % 2);
    float s[kGroups][kCols][4] = {};
#pragma unroll
    for (int d = 0; d < D; d += 16)
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
        uint32_t a[4];
        const int row = (warp * kGroups + j) * 16 + k_row;
        //! fault plain_unit wrong when S >= 2: ldmatrix(a, &sm.k[slot][d / 64][row][(d / 8 % 8 + k_unit) * 8]);
        ldmatrix(a, &sm.k[slot][d / 64][row][((d / 8 % 8 + k_unit) ^ (row % 8)) * 8]);
#pragma unroll
        for (int r = 0; r < kCols; ++r) mma(s[j][r], a, qb[r][d / 16][0], qb[r][d / 16][1]);
      }
    uint32_t p[kGroups][kCols][2];
#pragma unroll
    for (int r = 0; r < kCols; ++r) {
      float keep[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {  // columns 2c and 2c + 1
        float m_new = m[r][e];
#pragma unroll
        for (int j = 0; j < 2 * kGroups; ++j) {
          float &x = s[j / 2][r][j % 2 * 2 + e];
          //! fault unscaled wrong when S >= 2: x = tile * kTile + warp * kGroups * 16 + 8 * j + g < S ? x : -INFINITY;
          //! fault one_key_short wrong when S >= 2: x = tile * kTile + warp * kGroups * 16 + 8 * j + g < S - 1 ? x * scale : -INFINITY;
          x = tile * kTile + warp * kGroups * 16 + 8 * j + g < S ? x * scale : -INFINITY;
          m_new = fmaxf(m_new, x);
        }
#pragma unroll
        for (int off = 4; off < 32; off *= 2) m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, off));
        keep[e] = exp2f(m[r][e] - m_new);
        m[r][e] = m_new;
        l[r][e] *= keep[e];
#pragma unroll
        for (int j = 0; j < 2 * kGroups; ++j) {
          float &x = s[j / 2][r][j % 2 * 2 + e];
          x = exp2f(x - m_new);
          l[r][e] += x;
        }
      }
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {  // keys by heads becomes heads by keys
        p[j][r][0] = transpose(pack(s[j][r][0], s[j][r][1]));
        p[j][r][1] = transpose(pack(s[j][r][2], s[j][r][3]));
      }
#pragma unroll
      //! fault keep_row wrong when B * H >= 8 && H >= 2 * HKV && S >= 2 * kTile && B * HKV * (S / kTile) >= 3 * SMS * kPerSm: for (int i = 0; i < D / 4; ++i) acc[i / 4][r][i % 4] *= keep[i / 2 % 2];
      for (int i = 0; i < D / 4; ++i) acc[i / 4][r][i % 4] *= keep[i % 2];
    }
#pragma unroll
    for (int j = 0; j < kGroups; ++j)
#pragma unroll
      for (int d = 0; d < D; d += 16) {
        uint32_t a[4];
        const int row = (warp * kGroups + j) * 16 + v_row;
        ldmatrix_trans(a, &sm.v[slot][d / 64][row][((d / 8 % 8 + v_unit) ^ (row % 8)) * 8]);
#pragma unroll
        for (int r = 0; r < kCols; ++r) mma(acc[d / 16][r], a, p[j][r][0], p[j][r][1]);
      }
    __syncwarp();
    //! fault slot_name compile: if (lane == 0) bar_arrive(&sm.empty[stage]);
    if (lane == 0) bar_arrive(&sm.empty[slot]);
    if (tile != per_item - 1 && t != t1 - 1) continue;

    // The pair or the run ends here: join the warps, each adding its rescaled columns in turn.
#pragma unroll
    for (int i = 0; i < 2 * kCols; ++i) {
      float &x = l[i / 2][i % 2];
#pragma unroll
      for (int off = 4; off < 32; off *= 2) x += __shfl_xor_sync(0xffffffffu, x, off);
      if (g == 0) sm.m[warp][i / 2 * 8 + 2 * c + i % 2] = m[i / 2][i % 2];
    }
    consumers_sync();
    float weight[kCols][2];
#pragma unroll
    for (int i = 0; i < 2 * kCols; ++i) {
      const int h = i / 2 * 8 + 2 * c + i % 2;
      float top = kNoKey;
      for (int w = 0; w < kWarps; ++w) top = fmaxf(top, sm.m[w][h]);
      weight[i / 2][i % 2] = exp2f(m[i / 2][i % 2] - top);
      if (g == 0) sm.l[warp][h] = l[i / 2][i % 2] * weight[i / 2][i % 2];
    }
    for (int w = 0; w < kWarps; ++w) {
      if (warp == w)
#pragma unroll
        for (int i = 0; i < D / 4 * kCols; ++i) {
          const int e = i % 4, r = i / 4 % kCols, d = i / (4 * kCols);
          float &dst = sm.o[8 * r + 2 * c + e % 2][16 * d + 8 * (e / 2) + g];
          const float x = acc[d][r][e] * weight[r][e % 2];
          dst = w == 0 ? x : dst + x;
        }
      consumers_sync();
    }
    const bool from_start = t - tile >= t0, whole = from_start && tile == per_item - 1;
    for (int i = threadIdx.x; i < heads * D; i += 32 * kWarps) {
      const int r = i / D, d = i % D;
      float high = kNoKey, sum = 0.0f;
      for (int w = 0; w < kWarps; ++w) sum += sm.l[w][r], high = fmaxf(high, sm.m[w][r]);
      if (whole) {
        o[(size_t)(row0 + r * row_step) * D + d] = elem(sm.o[r][d] / sum);
      } else {  // a run has at most two cut pairs: one that it ends or crosses, one that it begins
        const int piece = 2 * blockIdx.x + (from_start ? 1 : 0);
        part_o[((size_t)piece * kRows + r) * D + d] = sm.o[r][d];
        if (d == 0) part_ml[piece * kRows + r] = make_float2(high, sum);
      }
    }
    consumers_sync();
  }
}

static __global__ void join_kernel(const float *__restrict__ part_o, const float2 *__restrict__ part_ml,
                                   elem *__restrict__ o, int H, int HKV, int S, int D, int items, int blocks) {
  const int group = H / HKV, head_blocks = (group + kRows - 1) / kRows, head = blockIdx.x % group;
  const int item = blockIdx.x / group * head_blocks + head / kRows, r = head % kRows;
  const int per_item = (S + kTile - 1) / kTile;
  const int b0 = block_of(item * per_item, items * per_item, blocks);
  const int b1 = block_of(item * per_item + per_item - 1, items * per_item, blocks);
  if (b0 == b1) return;  // not cut: written by the stream kernel
  auto piece = [&](int b) { return (size_t)(2 * b + (b == b0 ? 1 : 0)) * kRows + r; };
  float top = kNoKey, sum = 0.0f;
  for (int b = b0; b <= b1; ++b) top = fmaxf(top, part_ml[piece(b)].x);
  //! fault piece_weight wrong when B * HKV * cdiv(H / HKV, kRows) < SMS * kPerSm && S > kTile: for (int b = b0; b <= b1; ++b) sum += part_ml[piece(b)].y;
  for (int b = b0; b <= b1; ++b) sum += exp2f(part_ml[piece(b)].x - top) * part_ml[piece(b)].y;
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    float out = 0.0f;
#pragma unroll 4
    //! fault piece_weight wrong when B * HKV * cdiv(H / HKV, kRows) < SMS * kPerSm && S > kTile: for (int b = b0; b <= b1; ++b) out += part_o[piece(b) * D + d];
    for (int b = b0; b <= b1; ++b) out += exp2f(part_ml[piece(b)].x - top) * part_o[piece(b) * D + d];
    o[(size_t)blockIdx.x * D + d] = elem(out / sum);
  }
}

static int block_count(int items, int S) {
  int device = 0, sms = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  const long long tiles = (long long)items * ((S + kTile - 1) / kTile);
  return tiles < sms * kPerSm ? (int)tiles : sms * kPerSm;
}
static bool tensor_map(CUtensorMap *map, const void *p, size_t rows, int D) {
  const cuuint64_t dim[2] = {(cuuint64_t)D, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)D * sizeof(elem)};
  const cuuint32_t box[2] = {64, kTile}, one[2] = {1, 1};
  //! dtype bf16: const CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  return cuTensorMapEncodeTiled(map, type, 2, const_cast<void *>(p), dim, stride, box, one,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

extern "C" size_t flash_decode_workspace(int B, int H, int HKV, int S, int D) {
  return (size_t)2 * block_count(B * HKV * ((H / HKV + kRows - 1) / kRows), S) * kRows * (D + 2) * sizeof(float);
}

extern "C" cudaError_t flash_decode(const elem *q, const elem *k, const elem *v, elem *o, int B, int H, int HKV, int S,
                                    int D, void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (H % HKV != 0 || H / HKV > 128 || (D != 64 && D != 128 && D != 256)) return cudaErrorNotSupported;
  if (workspace_bytes < flash_decode_workspace(B, H, HKV, S, D)) return cudaErrorInvalidValue;
  const int items = B * HKV * ((H / HKV + kRows - 1) / kRows), blocks = block_count(items, S);
  CUtensorMap k_map, v_map;
  const size_t rows = (size_t)B * HKV * S;
  if (!tensor_map(&k_map, k, rows, D) || !tensor_map(&v_map, v, rows, D)) return cudaErrorInvalidValue;
  const float scale = 1.44269504f / sqrtf((float)D);  // log2(e) / sqrt(D): exp2 replaces exp
  float2 *part_ml = static_cast<float2 *>(workspace);
  float *part_o = reinterpret_cast<float *>(part_ml + (size_t)2 * blocks * kRows);
  auto run = [&](auto kernel, int bytes) {
    //! fault attribute_name compile: const cudaError_t set = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxSharedMemorySize, bytes);
    const cudaError_t set = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (set != cudaSuccess) return set;
    kernel<<<blocks, 32 * (kWarps + 1), bytes, stream>>>(k_map, v_map, q, o, part_o, part_ml, H, HKV, S, items, scale);
    join_kernel<<<B * H, 128, 0, stream>>>(part_o, part_ml, o, H, HKV, S, D, items, blocks);
    return cudaGetLastError();
  };
  return D == 64    ? run(stream_kernel<64>, (int)sizeof(Smem<64>) + 1024)
         : D == 128 ? run(stream_kernel<128>, (int)sizeof(Smem<128>) + 1024)
                    : run(stream_kernel<256>, (int)sizeof(Smem<256>) + 1024);
}
