// Split-KV attention for one token in one launch: the blocks of a cluster take equal slices of the keys of one KV head
// and send their partial results into each other's shared memory, so nothing passes through global memory. Every warp
// keeps a ring of kStages tiles filled by bulk copies; a tile arrives in four pieces, each 32 bytes further skewed, so
// that 16-byte reads in the order of mma.sync m16n8k16 meet no bank twice. Keys form the 16 rows, query heads columns.
//! idea bulk-copied rings per warp and slices joined through distributed shared memory
//! says bar_args: too few arguments in function call
//! says lane_name: identifier "lane_id" is undefined
//! says config_member: class "cudaLaunchConfig_st" has no member "sharedBytes"
//! says attr_name: identifier "cudaFuncAttributeNonPortableClusterSize" is undefined
//! needs tma cluster
//! legal e == 2 || (D != 80 && D != 96)
//! legal kCluster <= 8 || arch == 90
//! kernel grid=B*HKV*cdiv(H/HKV,kRows)*kCluster block=32*kWarps smem=kWarps*(kStages*(2*kKeys*D*e+264)+8*kRows)+(kCluster>1?kRows*(4*D+8*kCluster)+16*kCluster:0) regs=128 read=2*S*D*e*B*HKV*cdiv(H/HKV,kRows) once=2*B*HKV*S*D*e write=2*B*H*D inflight=kStages*kWarps*kKeys*D*e*2 ops=B*HKV*cdiv(H/HKV,kRows)*S*(D*2+220) chain=S/(kCluster*kWarps*kKeys)*(400+kKeys*8)+2*LAT+(kCluster>1?2200:900)
//! dtype bf16: #include <cuda_bf16.h>
//! dtype fp8: #include <cuda_fp8.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype fp8: using kv_elem = __nv_fp8_e4m3;
using kv_elem = elem;

//! param 2 4 8
constexpr int kWarps = 4;
//! param 8 16
constexpr int kRows = 8;  // query heads per block, 8 columns of mma each
//! param 16 32 64
constexpr int kKeys = 32;  // keys per tile of a warp
//! param 2 3 4 6
constexpr int kStages = 3;
//! param 1 2 4 8 16
constexpr int kCluster = 8;  // slices of a KV head
constexpr int kVec = 16 / sizeof(kv_elem);
constexpr int kGroups = kKeys / 16;
constexpr float kNoKey = -1e30f;  // finite, so that the difference of two empty maxima is 0

static __device__ __forceinline__ uint32_t smem_u32(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void bar_expect(uint64_t *b, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_u32(b)), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void bar_wait(uint64_t *b, uint32_t phase) {
  uint32_t done = 0;
  while (!done)
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(smem_u32(b)), "r"(phase) : "memory");
}
static __device__ __forceinline__ void bulk_copy(unsigned char *dst, const void *src, uint32_t bytes, uint64_t *bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   smem_u32(dst)), "l"(src), "r"(bytes), "r"(smem_u32(bar)) : "memory");
}
static __device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
static __device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
static __device__ __forceinline__ uint32_t remote(const void *p, int rank) {  // the same place in another block
  uint32_t at;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(smem_u32(p)), "r"(rank));
  return at;
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
// Two e4m3 values in the upper byte of each half become fp16 times 2^-8: the exponent moves, nothing is rounded.
[[maybe_unused]] static __device__ __forceinline__ uint32_t e4m3_pair(uint32_t w) {
  return (w & 0x80008000u) | ((w >> 1) & 0x3f803f80u);
}
// N words of a row whose lanes 0 ... kLanes - 1 hold 16 bytes each, then what is left of the row in equal parts.
template <int N, int kLanes>
static __device__ __forceinline__ void read_row(uint32_t (&w)[N], const unsigned char *row, int lane) {
#pragma unroll
  for (int i = 0; i + 4 <= N; i += 4) {
    const uint4 x = *reinterpret_cast<const uint4 *>(row + i * 4 * kLanes + 16 * lane);
    w[i] = x.x, w[i + 1] = x.y, w[i + 2] = x.z, w[i + 3] = x.w;
  }
  const unsigned char *rest = row + N / 4 * 16 * kLanes + N % 4 * 4 * lane;
  if constexpr (N % 4 == 2) {
    const uint2 x = *reinterpret_cast<const uint2 *>(rest);
    w[N - 2] = x.x, w[N - 1] = x.y;
  } else if constexpr (N % 4 == 1) {
    w[N - 1] = *reinterpret_cast<const uint32_t *>(rest);
  }
}
// Element t of rows a and b side by side: the operand for two neighbouring keys.
template <int N>
static __device__ __forceinline__ uint32_t zip(const uint32_t (&a)[N], const uint32_t (&b)[N], int t) {
  if constexpr (sizeof(kv_elem) == 2) {
    return __byte_perm(a[t / 2], b[t / 2], t % 2 ? 0x7632 : 0x5410);
  } else {
    const int i = t % 4;  // the low byte of each half is masked out afterwards
    return e4m3_pair(__byte_perm(a[t / 4], b[t / 4], (4 + i) << 12 | i << 4));
  }
}

template <int D>
static __global__ void __launch_bounds__(32 * kWarps, 1)
    slice_kernel(const elem *__restrict__ q, const kv_elem *__restrict__ k, const kv_elem *__restrict__ v,
                 elem *__restrict__ o, int H, int HKV, int S, float scale, float v_scale) {
  constexpr int kCols = kRows / 8, kSteps = D / 16;
  constexpr int kRow = D * sizeof(kv_elem), kPiece = kKeys / 4 * kRow + 32;  // bytes; a tile is four pieces
  constexpr int kKWords = kRow / 16, kVWords = kRow / 32;
  constexpr int kMine = (D + 31) / 32 * 32;  // floats per head of a warp's partial sums
  static_assert(kRows * kMine * 4 <= kStages * 8 * kPiece, "partial sums reuse the ring");
  extern __shared__ __align__(128) unsigned char raw[];
  __shared__ uint64_t full[kWarps][kStages];
  __shared__ float sm_m[kWarps][kRows], sm_l[kWarps][kRows];
  float2 *in_ml = reinterpret_cast<float2 *>(raw + kWarps * kStages * 8 * kPiece);  // [kCluster][kRows]
  float4 *in_o = reinterpret_cast<float4 *>(in_ml + kCluster * kRows);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  const int rank = blockIdx.x % kCluster, block = blockIdx.x / kCluster;
  const int group = H / HKV, head_blocks = (group + kRows - 1) / kRows;
  const int pair = block / head_blocks, first = block % head_blocks * kRows, heads = min(kRows, group - first);
  //! fault kv_head_modulo wrong when HKV > 1 && HKV < H: const int row0 = pair / HKV * H + pair % HKV + first * HKV, row_step = HKV;
  const int row0 = pair / HKV * H + pair % HKV * group + first, row_step = 1;
  const int begin = (int)((long long)S * rank / kCluster);
  //! fault slice_short wrong when S >= 2 * kCluster: const int end = (int)((long long)S * (rank + 1) / kCluster) - 1;
  const int end = (int)((long long)S * (rank + 1) / kCluster);
  unsigned char *ring = raw + warp * kStages * 8 * kPiece;
  const unsigned char *kp = reinterpret_cast<const unsigned char *>(k) + (size_t)pair * S * kRow;
  const unsigned char *vp = reinterpret_cast<const unsigned char *>(v) + (size_t)pair * S * kRow;

  auto request = [&](int t) {  // tile t of this warp: lanes 0-3 copy the pieces of K, lanes 4-7 those of V
    const int j0 = begin + (t * kWarps + warp) * kKeys, slot = t % kStages;
    if (j0 >= end) return;
    if (lane == 0) bar_expect(&full[warp][slot], 2 * kRow * min(kKeys, end - j0));
    const int j = j0 + c * (kKeys / 4), n = min(kKeys / 4, end - j);
    const unsigned char *src = (lane < 4 ? kp : vp) + (size_t)j * kRow;
    //! fault bar_args compile: if (lane < 8 && n > 0) bulk_copy(ring + (slot * 8 + lane) * kPiece, src, n * kRow);
    if (lane < 8 && n > 0) bulk_copy(ring + (slot * 8 + lane) * kPiece, src, n * kRow, &full[warp][slot]);
  };
  //! fault lane_name compile: if (lane_id < kStages)
  if (lane < kStages)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem_u32(&full[warp][lane])) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
  for (int t = 0; t < kStages; ++t) request(t);
  if constexpr (kCluster > 1) cluster_arrive();  // seen by all before anyone writes into another block

  // Query fragments in the order in which a lane reads K; columns past the last head repeat it and are never stored.
  uint2 qb[kCols][kSteps];
#pragma unroll
  for (int r = 0; r < kCols; ++r)
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      constexpr int kPer = kVec / 4;  // k16 steps of a 16-byte read
      const int at = s / kPer * kPer + kPer <= kSteps ? (s / kPer * 4 + c) * kVec + s % kPer * 4 : 16 * s + 4 * c;
      qb[r][s] = *reinterpret_cast<const uint2 *>(q + (size_t)(row0 + min(g + 8 * r, heads - 1) * row_step) * D + at);
    }
  float acc[D / 16][kCols][4] = {}, m[kCols][2], l[kCols][2];
#pragma unroll
  for (int r = 0; r < 2 * kCols; ++r) m[r / 2][r % 2] = kNoKey, l[r / 2][r % 2] = 0.0f;
  // Row x of 16 is row x / 8 * 2 + x % 2 of piece x / 2 % 4, of the piece two further if x is odd.
  const int k_piece = g / 2 ^ g % 2 * 2;
  const int k_at = k_piece * kPiece + g % 2 * kRow, v_at = (4 + c) * kPiece, v_odd = (4 + (c ^ 2)) * kPiece + kRow;

  for (int t = 0, j0 = begin + warp * kKeys; j0 < end; ++t, j0 += kWarps * kKeys) {
    unsigned char *tile = ring + t % kStages * 8 * kPiece;
    bar_wait(&full[warp][t % kStages], t / kStages % 2);
    if (j0 + kKeys > end) {  // rows of V that no key has filled must be finite
      for (int i = lane; i < kKeys * (kRow / 16); i += 32) {
        const int j = i / (kRow / 16), piece = j / (kKeys / 4);
        if (j0 + j >= end)
          *reinterpret_cast<uint4 *>(tile + (4 + piece) * kPiece + j % (kKeys / 4) * kRow + i % (kRow / 16) * 16) =
              make_uint4(0, 0, 0, 0);
      }
      __syncwarp();
    }
    float s[kGroups][kCols][4] = {};
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      uint32_t lo[kKWords], hi[kKWords];
      read_row<kKWords, 4>(lo, tile + k_at + 4 * n * kRow, c);
      read_row<kKWords, 4>(hi, tile + k_at + (4 * n + 2) * kRow, c);
#pragma unroll
      for (int st = 0; st < kSteps; ++st) {
        uint32_t a[4];
        if constexpr (sizeof(kv_elem) == 2) {
          a[0] = lo[2 * st], a[1] = hi[2 * st], a[2] = lo[2 * st + 1], a[3] = hi[2 * st + 1];
        } else {
          a[0] = e4m3_pair(__byte_perm(lo[st], 0, 0x1404)), a[1] = e4m3_pair(__byte_perm(hi[st], 0, 0x1404));
          a[2] = e4m3_pair(__byte_perm(lo[st], 0, 0x3424)), a[3] = e4m3_pair(__byte_perm(hi[st], 0, 0x3424));
        }
#pragma unroll
        for (int r = 0; r < kCols; ++r) mma(s[n][r], a, qb[r][st].x, qb[r][st].y);
      }
    }
    const int left = end - j0 - k_piece * (kKeys / 4) - g % 2;  // keys from this lane's first one on
    uint32_t p[kGroups][kCols][2];
#pragma unroll
    for (int r = 0; r < kCols; ++r) {
      float keep[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {  // columns 2c and 2c + 1
        float m_new = m[r][e];
#pragma unroll
        for (int n = 0; n < 2 * kGroups; ++n) {
          float &x = s[n / 2][r][n % 2 * 2 + e];
          //! fault unscaled wrong when S >= 2: x = 2 * n < left ? x * 1.44269504f : -INFINITY;
          x = 2 * n < left ? x * scale : -INFINITY;
          m_new = fmaxf(m_new, x);
        }
#pragma unroll
        for (int off = 4; off < 32; off *= 2) m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, off));
        //! fault no_rescale wrong when B * H >= 8 && cdiv(S, kCluster) > kWarps * kKeys: keep[e] = m[r][e] > kNoKey ? 1.0f : 0.0f;
        keep[e] = exp2f(m[r][e] - m_new);
        m[r][e] = m_new;
        l[r][e] *= keep[e];
#pragma unroll
        for (int n = 0; n < 2 * kGroups; ++n) {
          float &x = s[n / 2][r][n % 2 * 2 + e];
          x = exp2f(x - m_new);
          l[r][e] += x;
        }
      }
#pragma unroll
      for (int n = 0; n < kGroups; ++n) {  // keys by heads becomes heads by keys, the layout of the second operand
        p[n][r][0] = transpose(pack(s[n][r][0], s[n][r][1]));
        p[n][r][1] = transpose(pack(s[n][r][2], s[n][r][3]));
      }
#pragma unroll
      for (int i = 0; i < D / 4; ++i) acc[i / 4][r][i % 4] *= keep[i % 2];
    }
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      uint32_t w[4][kVWords];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        read_row<kVWords, 8>(w[i], tile + (i % 2 ? v_odd : v_at) + (4 * n + i / 2 * 2) * kRow, g);
#pragma unroll
      for (int u = 0; u < D / 16; ++u) {
        const uint32_t a[4] = {zip(w[0], w[1], 2 * u), zip(w[0], w[1], 2 * u + 1), zip(w[2], w[3], 2 * u),
                               zip(w[2], w[3], 2 * u + 1)};
#pragma unroll
        for (int r = 0; r < kCols; ++r) mma(acc[u][r], a, p[n][r][0], p[n][r][1]);
      }
    }
    __syncwarp();  // the slot is free
    request(t + kStages);
  }

  // Join the warps. Each leaves its sums in its own ring, which is drained; dims of a lane lie as it read V.
  float *mine = reinterpret_cast<float *>(ring);
  auto unit = [](int h, int x) { return x ^ (h / 2 % 2 | h / 4 % 2 * 4); };  // 16 bytes; neighbours in other banks
#pragma unroll
  for (int i = 0; i < 2 * kCols; ++i) {
    const int h = i / 2 * 8 + 2 * c + i % 2;
    float &x = l[i / 2][i % 2];
#pragma unroll
    for (int off = 4; off < 32; off *= 2) x += __shfl_xor_sync(0xffffffffu, x, off);
    if (g == 0) sm_m[warp][h] = m[i / 2][i % 2], sm_l[warp][h] = x;
    if (h < heads)
#pragma unroll
      for (int u = 0; u < D / 16; ++u) {
        constexpr int kFull = D / (8 * kVec) * (kVec / 2);  // pairs of dims in 16-byte reads
        const int at = u < kFull ? u / (kVec / 2) * 8 * kVec + g * kVec + u % (kVec / 2) * 2
                                 : 16 * kFull + g * (D / 8 - 2 * kFull) + (u - kFull) * 2;
        *reinterpret_cast<float2 *>(mine + h * kMine + unit(h, at / 4) * 4 + at % 4) =
            make_float2(acc[u][i / 2][i % 2], acc[u][i / 2][2 + i % 2]);
      }
  }
  __syncthreads();
  if constexpr (kCluster > 1) cluster_wait();
  const int units = heads * (D / 4), per = (units + kCluster - 1) / kCluster;
  auto store = [&](int i, const float4 &x, float sum) {
    const float f = v_scale / sum;
    uint2 y = make_uint2(pack(x.x * f, x.y * f), pack(x.z * f, x.w * f));
    *reinterpret_cast<uint2 *>(o + (size_t)(row0 + i / (D / 4) * row_step) * D + i % (D / 4) * 4) = y;
  };
  for (int i = threadIdx.x; i < units; i += 32 * kWarps) {
    const int h = i / (D / 4);
    float top = kNoKey, sum = 0.0f;
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, sm_m[w][h]);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float f = exp2f(sm_m[w][h] - top);
      const float *part = reinterpret_cast<const float *>(raw + w * kStages * 8 * kPiece) + h * kMine;
      const float4 y = *reinterpret_cast<const float4 *>(part + unit(h, i % (D / 4)) * 4);
      sum += f * sm_l[w][h];
      x.x += f * y.x, x.y += f * y.y, x.z += f * y.z, x.w += f * y.w;
    }
    if constexpr (kCluster == 1) {
      store(i, x, sum);
    } else {  // unit i is finished by block i / per
      asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(remote(in_o + rank * per + i % per, i / per)),
                   "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w) : "memory");
      if (i % (D / 4) < kCluster)
        asm volatile("st.shared::cluster.v2.f32 [%0], {%1,%2};" ::"r"(remote(in_ml + rank * kRows + h, i % (D / 4))),
                     "f"(top), "f"(sum) : "memory");
    }
  }
  if constexpr (kCluster > 1) {
    cluster_arrive();
    cluster_wait();
    for (int i = threadIdx.x; i < per && rank * per + i < units; i += 32 * kWarps) {
      const int h = (rank * per + i) / (D / 4);
      float top = kNoKey, sum = 0.0f;
      float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
      for (int b = 0; b < kCluster; ++b) top = fmaxf(top, in_ml[b * kRows + h].x);
#pragma unroll
      for (int b = 0; b < kCluster; ++b) {
        //! fault slice_weight wrong when kCluster >= 2 && S >= 2 * kCluster: const float f = 1.0f;
        const float f = exp2f(in_ml[b * kRows + h].x - top);
        const float4 y = in_o[b * per + i];
        sum += f * in_ml[b * kRows + h].y;
        x.x += f * y.x, x.y += f * y.y, x.z += f * y.z, x.w += f * y.w;
      }
      store(rank * per + i, x, sum);
    }
  }
}

extern "C" cudaError_t flash_decode(const elem *q, const kv_elem *k, const kv_elem *v, elem *o, int B, int H, int HKV,
                                    //! dtype fp8: int S, int D, float kscale, float vscale, void *workspace,
                                    int S, int D, void *workspace,
                                    size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace, (void)workspace_bytes;
  if (H % HKV != 0 || H / HKV > 128) return cudaErrorNotSupported;
  if (D != 64 && D != 128 && D != 256 && (sizeof(kv_elem) == 1 || (D != 80 && D != 96))) return cudaErrorNotSupported;
  // exp2 replaces exp, so the scores carry log2(e); e4m3 operands are read as 2^-8 of their value.
  //! dtype fp8: const float scale = 256.0f * 1.44269504f * kscale / sqrtf((float)D), v_scale = 256.0f * vscale;
  const float scale = 1.44269504f / sqrtf((float)D), v_scale = 1.0f;
  const int ring = kWarps * kStages * 8 * (kKeys / 4 * D * (int)sizeof(kv_elem) + 32);
  const int inbox = kCluster > 1 ? kCluster * kRows * 8 + kRows * D * 4 + kCluster * 16 : 0;
  auto run = [&](auto kernel) {
    cudaError_t set = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, ring + inbox);
    if (set == cudaSuccess && kCluster > 8)
      //! fault attr_name compile: set = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSize, 1);
      set = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (set != cudaSuccess) return set;
    cudaLaunchAttribute attr[1] = {};
    attr[0].id = cudaLaunchAttributeClusterDimension;
    attr[0].val.clusterDim.x = kCluster, attr[0].val.clusterDim.y = 1, attr[0].val.clusterDim.z = 1;
    cudaLaunchConfig_t cfg = {};
    cfg.gridDim = dim3(B * HKV * ((H / HKV + kRows - 1) / kRows) * kCluster), cfg.blockDim = dim3(32 * kWarps);
    //! fault config_member compile: cfg.sharedBytes = ring + inbox, cfg.stream = stream, cfg.attrs = attr, cfg.numAttrs = 1;
    cfg.dynamicSmemBytes = ring + inbox, cfg.stream = stream, cfg.attrs = attr, cfg.numAttrs = 1;
    set = cudaLaunchKernelEx(&cfg, kernel, q, k, v, o, H, HKV, S, scale, v_scale);
    return set != cudaSuccess ? set : cudaGetLastError();
  };
  if (D == 64) return run(slice_kernel<64>);
  if (D == 128) return run(slice_kernel<128>);
  if (D == 256) return run(slice_kernel<256>);
  constexpr bool kHalf = sizeof(kv_elem) == 2;  // only then is D 80 or 96
  return D == 80 ? run(slice_kernel<kHalf ? 80 : 64>) : run(slice_kernel<kHalf ? 96 : 64>);
}
