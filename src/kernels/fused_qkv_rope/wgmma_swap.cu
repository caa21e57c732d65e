// For few tokens: the product is computed transposed, so that rows of w fill wgmma's 64 rows and the tokens are its
// columns. TMA takes rows of the lower and of the upper half of a head in turns of eight, so that a thread holds both
// values of its pairs. Where there are too few tiles the blocks of a cluster divide E and add up in shared memory.
//! idea wgmma with w as rows, E split in a cluster
//! dtypes fp16 bf16
//! needs tma cluster wgmma
//! legal SPLITS<=cdiv(E,64)&&D%16==0
//! legal (BN==8||2*T>BN)&&T<=4*BN
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using elem2 = __nv_bfloat162;
using elem2 = __half2;
//! dtype bf16: constexpr CUtensorMapDataType TYPE = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
constexpr CUtensorMapDataType TYPE = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;

//! param 32 64 128
constexpr int BM = 64;      // rows of w in a tile: BM / 2 pairs
//! param 8 16 32 64 128
constexpr int BN = 16;      // tokens in a tile
//! param 4 6 8 12 16
constexpr int STAGES = 6;   // pieces of 64 columns in flight
//! param 1 2 4 8
constexpr int SPLITS = 4;   // blocks along E, which are a cluster
constexpr int CONSUMERS = BM < 128 ? 128 : 256, THREADS = CONSUMERS + 32;  // warpgroups of 64 rows; a warp that loads
constexpr int TILE_W = BM * 128, TILE_X = BN * 128, RING = STAGES * (TILE_W + TILE_X);
constexpr int OWN = BN / 8 > SPLITS ? BN / 8 / SPLITS : 1;  // groups of 8 tokens that a block finishes
constexpr int PARTS = (SPLITS - 1) * OWN * BM * 32;         // bytes of partial sums that a block receives
constexpr int SMEM = RING + PARTS + STAGES * 16;

static __device__ __forceinline__ uint32_t smem_u32(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void bar_init(uint32_t b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(n));
}
static __device__ __forceinline__ void bar_expect(uint32_t b, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void bar_arrive(uint32_t b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory");
}
static __device__ __forceinline__ void bar_wait(uint32_t b, uint32_t phase) {
  asm volatile("{\n.reg .pred p;\n"
               "W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra W;\nD:\n}"
               ::"r"(b), "r"(phase) : "memory");
}
static __device__ __forceinline__ void tma_load(uint32_t dst, const CUtensorMap *map, int x, int y, uint32_t bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3}], [%4];"
               ::"r"(dst), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}
// Eight rows of a head's lower half, then the same of its upper half.
static __device__ __forceinline__ void tma_pairs(uint32_t dst, const CUtensorMap *map, int x, int y, int z,
                                                 uint32_t bar) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4}], [%5];"
               ::"r"(dst), "l"(map), "r"(x), "r"(y), "r"(z), "r"(bar) : "memory");
}
static __device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
// The address in the cluster's block `rank` of what lies at p here.
static __device__ __forceinline__ uint32_t remote(uint32_t p, int rank) {
  uint32_t far;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(p), "r"(rank));
  return far;
}

// Two floats as elements, an 8 x 8 matrix of them in a warp, a row in four lanes, transposed.
static __device__ __forceinline__ elem2 turn(float x, float y) {
  elem2 h = elem2((elem)x, (elem)y);
  uint32_t &u = *(uint32_t *)&h;
  //! fault not_turned wrong when D>=16: asm volatile("mov.b32 %0, %0;" : "+r"(u));
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(u));
  return h;
}

// Matrix descriptor: K-major rows of 128 bytes, 128-byte swizzle, groups of eight rows 1024 bytes apart.
static __device__ __forceinline__ uint64_t desc(uint32_t p) {
  //! fault mode_64 wrong: constexpr uint64_t fixed = 2ull << 62 | 64ull << 32 | 1ull << 16;
  constexpr uint64_t fixed = 1ull << 62 | 64ull << 32 | 1ull << 16;
  return fixed | (p & 0x3ffff) >> 4;
}

#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define L8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define L16 L8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define L32 L16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define L64 L32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55," \
                "%56,%57,%58,%59,%60,%61,%62,%63"
//! dtype bf16: #define TYPES "k16.f32.bf16.bf16 {"
#define TYPES "k16.f32.f16.f16 {"
#define WGMMA(n) "wgmma.mma_async.sync.aligned.m64n" #n TYPES
// d += w * x^T for 64 rows of w, N tokens and 16 columns.
template <int N>
static __device__ __forceinline__ void wgmma(float (&d)[N / 2], uint64_t w, uint64_t x) {
  if constexpr (N == 8)
    asm volatile(WGMMA(8) "%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;" : R4(0) : "l"(w), "l"(x));
  else if constexpr (N == 16)
    asm volatile(WGMMA(16) L8 "}, %8, %9, 1, 1, 1, 0, 0;" : R4(0), R4(4) : "l"(w), "l"(x));
  else if constexpr (N == 32)
    asm volatile(WGMMA(32) L16 "}, %16, %17, 1, 1, 1, 0, 0;" : R16(0) : "l"(w), "l"(x));
  else if constexpr (N == 64)
    asm volatile(WGMMA(64) L32 "}, %32, %33, 1, 1, 1, 0, 0;" : R16(0), R16(16) : "l"(w), "l"(x));
  else
    asm volatile(WGMMA(128) L64 "}, %64, %65, 1, 1, 1, 0, 0;" : R16(0), R16(16), R16(32), R16(48) : "l"(w), "l"(x));
}

//! kernel grid=cdiv((H+2*HKV)*D,BM)*cdiv(T,BN)*SPLITS block=(BM<128?160:288) smem=STAGES*(BM+BN)*128+(SPLITS-1)*max(1,BN/8/SPLITS)*BM*32+STAGES*16 regs=max(44,BN/2+36) read=2*E*(cdiv((H+2*HKV)*D,BM)*T+cdiv(T,BN)*(H+2*HKV)*D) once=2*E*(T+(H+2*HKV)*D) write=2*T*(H+2*HKV)*D inflight=STAGES*(BM+BN)*128 ops=(T*E/300+T*SPLITS*4)*(H+2*HKV)*D tc16=2*E*cdiv((H+2*HKV)*D,BM)*max(BM,64)*cdiv(T,BN)*BN eff=60 chain=LAT+E/64/SPLITS*max(140,LAT/STAGES)+(SPLITS>1?1200:600)
static __global__ void __launch_bounds__(THREADS)
    qkv_kernel(const __grid_constant__ CUtensorMap tx, const __grid_constant__ CUtensorMap tw, const int *pos,
               const float *table, elem *q, elem *k, elem *v, int T, int H, int HKV, int D, int E) {
  extern __shared__ __align__(1024) uint8_t raw[];
  const uint32_t ws = smem_u32(raw), xs = ws + STAGES * TILE_W, parts = ws + RING, full = parts + PARTS;
  const uint32_t empty = full + STAGES * 8;
  const int split = blockIdx.x % SPLITS, p0 = blockIdx.x / SPLITS * (BM / 2), t0 = blockIdx.y * BN, half = D / 2;
  //! fault e_tail wrong when E%64!=0&&E>64: const int all = E / 64;
  const int all = (E + 63) / 64;
  const int first = all * split / SPLITS, steps = all * (split + 1) / SPLITS - first;
  if (threadIdx.x == CONSUMERS) {
    for (int i = 0; i < STAGES; ++i) {
      bar_init(full + i * 8, 1);
      bar_init(empty + i * 8, CONSUMERS / 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (SPLITS > 1) asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  if (threadIdx.x >= CONSUMERS) {
    if (threadIdx.x == CONSUMERS) {
      for (int t = 0; t < steps; ++t) {
        const int stage = t % STAGES, c = (first + t) * 64;
        const uint32_t to = ws + stage * TILE_W, bar = full + stage * 8;
        //! fault phase_of compile: if (t >= STAGES) bar_wait(empty + stage * 8, phase ^ 1);
        //! says phase_of: identifier "phase" is undefined
        if (t >= STAGES) bar_wait(empty + stage * 8, t / STAGES % 2 ^ 1);
        bar_expect(bar, TILE_X + TILE_W);
#pragma unroll
        for (int g = 0; g < BM / 2; g += 8)
          tma_pairs(to + g * 256, &tw, c, (p0 + g) % half, (p0 + g) / half * 2, bar);
        //! fault x_stage compile: tma_load(xs[stage * TILE_X], &tx, c, t0, bar);
        //! says x_stage: expression must have pointer-to-object type but it has type "int"
        tma_load(xs + stage * TILE_X, &tx, c, t0, bar);
      }
    }
    __syncwarp();
    if constexpr (SPLITS > 1) {
      asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
      cluster_sync();
    }
    return;
  }
  const int lane = threadIdx.x % 32, w0 = threadIdx.x / 128 * 64, row = threadIdx.x / 32 * 16;
  float d[BN / 2] = {};
  for (int t = 0; t < steps; ++t) {
    const int stage = t % STAGES;
    bar_wait(full + stage * 8, t / STAGES % 2);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int b = 0; b < 128; b += 32)  // with BM = 32 the upper rows are what lies behind the tile, and unused
      wgmma<BN>(d, desc(ws + stage * TILE_W + w0 * 128 + b), desc(xs + stage * TILE_X + b));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    if (t > 0 && lane == 0) bar_arrive(empty + (t - 1) % STAGES * 8);
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  if constexpr (SPLITS > 1) {
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");  // the other blocks have started
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
      const int owner = j / OWN, slot = split - (split > owner);
      if (owner == split || row >= BM) continue;
      const uint32_t to = remote(parts + ((slot * OWN + j % OWN) * BM * 2 + threadIdx.x) * 16, owner);
      asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};"
                   ::"r"(to), "f"(d[j * 4]), "f"(d[j * 4 + 1]), "f"(d[j * 4 + 2]), "f"(d[j * 4 + 3]) : "memory");
    }
    cluster_sync();
  }
  const int p = p0 + row / 2, head = p / half, i = p % half;  // the warp's eight pairs
  if (row >= BM || head >= H + 2 * HKV) return;
  elem *const out = head < H ? q + (size_t)head * D + i : (head < H + HKV ? k : v) + (size_t)((head - H) % HKV) * D + i;
  const size_t pitch = (size_t)(head < H ? H : HKV) * D;
#pragma unroll
  for (int j = 0; j < BN / 8; ++j) {
    if (j / OWN != split) continue;
    float4 s = make_float4(d[j * 4], d[j * 4 + 1], d[j * 4 + 2], d[j * 4 + 3]);  // two tokens below, two above
    //! fault one_part wrong when SPLITS>2: for (int r = 0; r < 1; ++r) {
    for (int r = 0; r < SPLITS - 1; ++r) {
      const float4 u = *(const float4 *)(raw + RING + ((r * OWN + j % OWN) * BM * 2 + threadIdx.x) * 16);
      s.x += u.x, s.y += u.y, s.z += u.z, s.w += u.w;
    }
    const int t = t0 + j * 8 + lane % 4 * 2;
    //! fault keys_plain wrong: if (head < H) {
    if (head < H + HKV) {
      //! fault row_const compile: float *e0 = table + (size_t)pos[min(t, T - 1)] * D + i + lane / 4;
      //! says row_const: a value of type "const float *" cannot be used to initialize an entity of type "float *"
      const float *e0 = table + (size_t)pos[min(t, T - 1)] * D + i + lane / 4;
      const float *e1 = table + (size_t)pos[min(t + 1, T - 1)] * D + i + lane / 4;
      const float c0 = e0[0], s0 = e0[half], c1 = e1[0], s1 = e1[half];
      //! fault sine_sign wrong: s = make_float4(s.x * c0 + s.z * s0, s.y * c1 + s.w * s1, s.z * c0 - s.x * s0, s.w * c1 - s.y * s1);
      s = make_float4(s.x * c0 - s.z * s0, s.y * c1 - s.w * s1, s.z * c0 + s.x * s0, s.w * c1 + s.y * s1);
    }
    const elem2 lo = turn(s.x, s.y), hi = turn(s.z, s.w);
    const int token = t0 + j * 8 + lane / 4;
    if (token >= T) continue;
    *(elem2 *)(out + token * pitch + lane % 4 * 2) = lo;
    *(elem2 *)(out + token * pitch + half + lane % 4 * 2) = hi;
  }
}

// Rows of x, or with half > 0 those of w by half heads: (E, half, 2 * heads).
static bool tensor_map(CUtensorMap *map, const void *p, int rows, int cols, int half) {
  cuuint64_t dim[3] = {(cuuint64_t)cols, (cuuint64_t)(half ? half : rows), (cuuint64_t)(half ? rows / half : 1)};
  cuuint64_t stride[2] = {(cuuint64_t)cols * 2, (cuuint64_t)cols * 2 * half};
  cuuint32_t box[3] = {64, half ? 8u : BN, 2}, step[3] = {1, 1, 1};
  return cuTensorMapEncodeTiled(map, TYPE, half ? 3 : 2, (void *)p, dim, stride, box, step,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

extern "C" cudaError_t fused_qkv_rope(const elem *x, const elem *w, const int *pos, const float *table, elem *q,
                                      elem *k, elem *v, int T, int H, int HKV, int D, int E, void * /*workspace*/,
                                      size_t /*workspace_bytes*/, cudaStream_t stream) {
  if (T < 1 || E < 8 || E % 8 || D % 16 || SPLITS > (E + 63) / 64) return cudaErrorNotSupported;
  if ((BN > 8 && 2 * T <= BN) || T > 4 * BN) return cudaErrorNotSupported;
  const int rows = (H + 2 * HKV) * D;
  CUtensorMap tx, tw;
  if (!tensor_map(&tx, x, T, E, 0) || !tensor_map(&tw, w, rows, E, D / 2)) return cudaErrorInvalidValue;
  cudaError_t e = cudaFuncSetAttribute(qkv_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM);
  if (e != cudaSuccess) return e;
  cudaLaunchAttribute group[1] = {};
  group[0].id = cudaLaunchAttributeClusterDimension;
  group[0].val.clusterDim.x = SPLITS;
  group[0].val.clusterDim.y = group[0].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((rows + BM - 1) / BM * SPLITS, (T + BN - 1) / BN);
  config.blockDim = dim3(THREADS);
  config.dynamicSmemBytes = SMEM;
  config.stream = stream;
  config.attrs = group;
  config.numAttrs = SPLITS > 1;
  e = cudaLaunchKernelEx(&config, qkv_kernel, tx, tw, pos, table, q, k, v, T, H, HKV, D, E);
  return e == cudaSuccess ? cudaGetLastError() : e;
}
