// fp16 GEMM for few rows of a, on sm_90a: c is computed transposed, so that rows of b fill wgmma's 64 rows and the few
// rows of a are its columns; no tensor work is spent on padding. The blocks of a cluster divide K, each streams its
// part of b through a deep TMA ring, and partial sums meet in distributed shared memory before the one rounding.
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

//! idea wgmma with swapped operands, K divided in a cluster
//! needs tma cluster wgmma
//! legal BM*BN<=32768&&SPLITS<=cdiv(K,64*SUB)
//! legal BN<=max(8,pow2(M))&&M<=2*BN
//! param 64 128 256
constexpr int BM = 64;     // rows of b in a tile
//! param 8 16 32 64 128 256
constexpr int BN = 16;     // rows of a in a tile
//! param 1 2 4
constexpr int SUB = 2;     // pieces of 64 along K in a stage
//! param 3 4 5 6 8 10
constexpr int STAGES = 8;  // stages in flight
//! param 1 2 4 8
constexpr int SPLITS = 2;  // blocks along K, which are a cluster
constexpr int WGS = BM == 64 ? 1 : 2, MT = BM / (64 * WGS);  // consumer warpgroups; 64-row products in each
constexpr int THREADS = 128 * WGS + 32;                      // and a warp that loads
constexpr int TILE_B = BM * 128, TILE_A = BN * 128, STAGE = SUB * (TILE_A + TILE_B);
constexpr int SHARE = BM / SPLITS, ROW = SHARE + 4;  // columns of c that a block finishes; padded against conflicts
constexpr int RING = STAGES * STAGE, PARTS = SPLITS * BN * ROW * 4;  // bytes; the same memory serves for both
constexpr int BARS = RING > PARTS ? RING : (PARTS + 7) / 8 * 8, SMEM = BARS + STAGES * 16;

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
static __device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
// The address in block `rank` of the cluster of what is at p here.
static __device__ __forceinline__ uint32_t remote(uint32_t p, int rank) {
  uint32_t far;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(p), "r"(rank));
  return far;
}

// Matrix descriptor: K-major rows of 128 bytes, 128-byte swizzle, groups of eight rows 1024 bytes apart.
static __device__ __forceinline__ uint64_t desc(uint32_t p) {
  //! fault stride_4 wrong when N>=16: constexpr uint64_t fixed = 1ull << 62 | 16ull << 32 | 1ull << 16;
  constexpr uint64_t fixed = 1ull << 62 | 64ull << 32 | 1ull << 16;
  return fixed | (p & 0x3ffff) >> 4;
}

#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define R64(i) R16(i), R16(i + 16), R16(i + 32), R16(i + 48)
#define L4 "%0,%1,%2,%3"
#define L8 L4 ",%4,%5,%6,%7"
#define L16 L8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define L32 L16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define L64 L32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55," \
                "%56,%57,%58,%59,%60,%61,%62,%63"
#define L128 L64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87," \
                 "%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109," \
                 "%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define MMA(n) "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {"
// d += x * y for 64 rows, N columns and 32 bytes of K.
template <int N>
static __device__ __forceinline__ void wgmma(float (&d)[N / 2], uint64_t x, uint64_t y) {
  if constexpr (N == 8)
    asm volatile(MMA(8) L4 "}, %4, %5, 1, 1, 1, 0, 0;" : R4(0) : "l"(x), "l"(y));
  else if constexpr (N == 16)
    asm volatile(MMA(16) L8 "}, %8, %9, 1, 1, 1, 0, 0;" : R4(0), R4(4) : "l"(x), "l"(y));
  else if constexpr (N == 32)
    asm volatile(MMA(32) L16 "}, %16, %17, 1, 1, 1, 0, 0;" : R16(0) : "l"(x), "l"(y));
  else if constexpr (N == 64)
    asm volatile(MMA(64) L32 "}, %32, %33, 1, 1, 1, 0, 0;" : R16(0), R16(16) : "l"(x), "l"(y));
  else if constexpr (N == 128)
    asm volatile(MMA(128) L64 "}, %64, %65, 1, 1, 1, 0, 0;" : R64(0) : "l"(x), "l"(y));
  else
    asm volatile(MMA(256) L128 "}, %128, %129, 1, 1, 1, 0, 0;" : R64(0), R64(64) : "l"(x), "l"(y));
}

//! kernel grid=cdiv(M,BN)*cdiv(N,BM)*SPLITS block=BM==64?160:288 smem=max(STAGES*SUB*(BM+BN)*128,BN*(BM+4*SPLITS)*4)+STAGES*16 regs=26+BN*BM/(BM==64?128:256) read=2*K*(cdiv(N,BM)*M+cdiv(M,BN)*N) once=2*K*(M+N) write=2*M*N inflight=(STAGES-1)*SUB*(BM+BN)*128 ops=M*N*(4+6*SPLITS)+N*K*cdiv(M,BN)/8 tc16=2*K*cdiv(M,BN)*max(BN,16)*cdiv(N,BM)*BM eff=min(80,36+BM*BN/512) chain=LAT+K/64/SPLITS*max(LAT/(STAGES*SUB-1),60+BN*BM/64)+800
static __global__ void __cluster_dims__(SPLITS, 1, 1) __launch_bounds__(THREADS)
    gemm_kernel(const __grid_constant__ CUtensorMap ta, const __grid_constant__ CUtensorMap tb, __half *c,
                int M, int N, int K) {
  extern __shared__ __align__(1024) uint8_t raw[];
  const uint32_t ring = smem_u32(raw), full = ring + BARS, empty = full + STAGES * 8;
  const int rank = blockIdx.x % SPLITS, tile = blockIdx.x / SPLITS, down = (M + BN - 1) / BN;
  const int m0 = tile % down * BN, n0 = tile / down * BM;  // tiles of the same b are neighbours
  //! fault k_tail wrong when K%(64*SUB)!=0: const int steps = K / (64 * SUB);
  const int steps = (K + 64 * SUB - 1) / (64 * SUB);
  //! fault begin_member compile: const int begin = steps * cluster.rank / SPLITS, end = steps * (rank + 1) / SPLITS;
  //! says begin_member: identifier "cluster" is undefined
  const int begin = steps * rank / SPLITS, end = steps * (rank + 1) / SPLITS;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      bar_init(full + i * 8, 1);
      bar_init(empty + i * 8, WGS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  int stage = 0;
  uint32_t phase = 0;
  const int wg = threadIdx.x / 128, lane = threadIdx.x % 128;
  float d[MT][BN / 2] = {};
  if (wg == WGS) {  // one thread keeps the ring full
    if (lane == 0) {
      for (int k = begin; k < end; ++k) {
        const uint32_t dst = ring + stage * STAGE, bar = full + stage * 8;
        bar_wait(empty + stage * 8, phase ^ 1);
        bar_expect(bar, STAGE);
#pragma unroll
        for (int i = 0; i < SUB; ++i) {
          tma_load(dst + i * TILE_B, &tb, (k * SUB + i) * 64, n0, bar);
          //! fault map_order compile: tma_load(&ta, dst + SUB * TILE_B + i * TILE_A, (k * SUB + i) * 64, m0, bar);
          //! says map_order: argument of type "const CUtensorMap *" is incompatible with parameter of type "uint32_t" (aka "unsigned int")
          tma_load(dst + SUB * TILE_B + i * TILE_A, &ta, (k * SUB + i) * 64, m0, bar);
        }
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
    }
    __syncwarp();
  } else {
    int prev = -1;
    for (int k = begin; k < end; ++k) {
      const uint32_t w = ring + stage * STAGE, x = w + SUB * TILE_B;
      bar_wait(full + stage * 8, phase);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int i = 0; i < SUB; ++i)
#pragma unroll
        for (int kk = 0; kk < 128; kk += 32)
#pragma unroll
          for (int t = 0; t < MT; ++t)
            wgmma<BN>(d[t], desc(w + i * TILE_B + (wg * MT + t) * 8192 + kk), desc(x + i * TILE_A + kk));
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (prev >= 0 && lane == 0) bar_arrive(empty + prev * 8);
      prev = stage;
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  cluster_sync();  // every block of the cluster is done with its ring
  if (wg < WGS) {
    // A row of b is a column of c: it belongs to the block that finishes that share of the columns.
#pragma unroll
    for (int q = 0; q < MT * 2; ++q) {
      //! fault row_swap wrong: const int row = (wg * MT + q / 2) * 64 + lane / 32 * 16 + lane % 32 / 4 + (1 - q % 2) * 8;
      const int row = (wg * MT + q / 2) * 64 + lane / 32 * 16 + lane % 32 / 4 + q % 2 * 8;
      const uint32_t to = remote(ring, row / SHARE) + ((rank * BN + lane % 4 * 2) * ROW + row % SHARE) * 4;
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
        const float *v = &d[q / 2][j * 4 + q % 2 * 2];
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to + j * 32 * ROW), "f"(v[0]) : "memory");
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to + j * 32 * ROW + ROW * 4), "f"(v[1]) : "memory");
      }
    }
  }
  cluster_sync();
  const float *parts = (const float *)raw;
  for (int i = threadIdx.x; i < BN * SHARE / 8; i += THREADS) {  // eight columns of a row of c
    //! fault share_order wrong when SPLITS>=2: const int m = i / (SHARE / 8), at = i % (SHARE / 8) * 8, n = n0 + (SPLITS - 1 - rank) * SHARE + at;
    const int m = i / (SHARE / 8), at = i % (SHARE / 8) * 8, n = n0 + rank * SHARE + at;
    if (m0 + m >= M || n >= N) continue;
    float sum[8] = {};
#pragma unroll
    //! fault last_split wrong when SPLITS>=2: for (int p = 0; p < SPLITS - 1; ++p)
    for (int p = 0; p < SPLITS; ++p)
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        const float4 v = *(const float4 *)&parts[(p * BN + m) * ROW + at + j];
        sum[j] += v.x, sum[j + 1] += v.y, sum[j + 2] += v.z, sum[j + 3] += v.w;
      }
    alignas(16) __half2 out[4];
#pragma unroll
    //! fault pack_half compile: for (int j = 0; j < 4; ++j) out[j] = __floats2half_rn(sum[j * 2], sum[j * 2 + 1]);
    //! says pack_half: identifier "__floats2half_rn" is undefined
    for (int j = 0; j < 4; ++j) out[j] = __floats2half2_rn(sum[j * 2], sum[j * 2 + 1]);
    *(uint4 *)&c[(size_t)(m0 + m) * N + n] = *(const uint4 *)out;
  }
}

static bool tensor_map(CUtensorMap *map, const void *p, int rows, int cols, int box_rows) {
  cuuint64_t dim[2] = {(cuuint64_t)cols, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)cols * 2};
  cuuint32_t box[2] = {64, (cuuint32_t)box_rows}, step[2] = {1, 1};
  return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)p, dim, stride, box, step,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

extern "C" cudaError_t gemm_fp16(const __half *a, const __half *b, __half *c, int M, int N, int K,
                                 void * /*workspace*/, size_t /*workspace_bytes*/, cudaStream_t stream) {
  if (M < 1 || N < 8 || K < 8 || N % 8 || K % 8) return cudaErrorNotSupported;
  if (SPLITS > (K + 64 * SUB - 1) / (64 * SUB) || M > 2 * BN || (BN > 8 && M <= BN / 2)) return cudaErrorNotSupported;
  CUtensorMap ta, tb;
  if (!tensor_map(&ta, a, M, K, BN) || !tensor_map(&tb, b, N, K, BM)) return cudaErrorInvalidValue;
  const cudaError_t e = cudaFuncSetAttribute(gemm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM);
  if (e != cudaSuccess) return e;
  const unsigned grid = (unsigned)((M + BN - 1) / BN) * ((N + BM - 1) / BM) * SPLITS;
  gemm_kernel<<<grid, THREADS, SMEM, stream>>>(ta, tb, c, M, N, K);
  return cudaGetLastError();
}
