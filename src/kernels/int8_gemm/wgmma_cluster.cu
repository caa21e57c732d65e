// int8 GEMM for sm_90a in clusters of two blocks: the operand that both tiles need crosses L2 once, each block loading
// half of it with TMA for both. The second consumer warpgroup trails the first by SKEW steps of K, so that one stores
// (stmatrix, then TMA out of shared memory) while the other has the tensor cores. Persistent grid.
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

//! idea s8 wgmma, TMA multicast in pairs of blocks
//! needs tma cluster wgmma setmaxnreg
//! legal BM*BN<=32768
//! legal SKEW+2<=STAGES
//! param 128 256
constexpr int BM = 128;      // tile rows
//! param 128 256
constexpr int BN = 256;      // tile columns
//! param 3 4 5 6
constexpr int STAGES = 4;    // tiles in flight
//! param 0 1
constexpr int PAIR_M = 1;    // 1: a pair's tiles lie along M and share b; 0: along N, sharing a
//! param 2 4 8 16
constexpr int GROUP = 8;     // pair rows per L2 group
//! param 0 1 2
constexpr int SKEW = 1;      // steps between the warpgroups
constexpr int BK = 128;       // a tile row is 128 bytes, the width of the swizzle
constexpr int MT = BM / 128;  // 64-row products in each of two consumer warpgroups
constexpr int THREADS = 384;
constexpr int PM = PAIR_M ? 2 : 1, PN = 3 - PM;       // tiles of a pair
constexpr int LOAD_A = BM / PN, LOAD_B = BN / PM;     // rows that a block loads
constexpr int TX = (BM + BN) * 128;                   // bytes per stage, half of the shared operand by the other block

struct Smem {
  alignas(1024) uint8_t a[STAGES][BM * 128];
  alignas(1024) uint8_t b[STAGES][BN * 128];
  alignas(1024) uint8_t c[2][2][64 * 128];  // two pieces of 64 x 64 outputs for each warpgroup
  alignas(8) uint64_t full[STAGES], empty[STAGES];
};

static __device__ __forceinline__ uint32_t smem_u32(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void bar_init(uint64_t *b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_u32(b)), "r"(n));
}
static __device__ __forceinline__ void bar_expect(uint64_t *b, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               ::"r"(smem_u32(b)), "r"(bytes) : "memory");
}
// Arrives at the barrier of the block with that rank in the cluster.
static __device__ __forceinline__ void bar_arrive(uint64_t *b, uint32_t rank) {
  asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [r];\n}"
               ::"r"(smem_u32(b)), "r"(rank) : "memory");
}
static __device__ __forceinline__ void bar_wait(uint64_t *b, uint32_t phase) {
  asm volatile("{\n.reg .pred p;\n"
               "W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra W;\nD:\n}"
               ::"r"(smem_u32(b)), "r"(phase) : "memory");
}
static __device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
// A box of the matrix for this block, or for both blocks of the cluster at the same place.
template <bool BOTH>
static __device__ __forceinline__ void tma_load(void *dst, const CUtensorMap *map, int x, int y, uint64_t *bar) {
  if constexpr (BOTH)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(smem_u32(dst)), "l"(map), "r"(x), "r"(y), "r"(smem_u32(bar)), "h"((uint16_t)3) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 ::"r"(smem_u32(dst)), "l"(map), "r"(x), "r"(y), "r"(smem_u32(bar)) : "memory");
}
static __device__ __forceinline__ void tma_store(const CUtensorMap *map, int x, int y, uint32_t src) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
               ::"l"(map), "r"(x), "r"(y), "r"(src) : "memory");
}
// Matrix descriptor: K-major rows of 128 bytes, 128-byte swizzle, groups of eight rows 1024 bytes apart.
static __device__ __forceinline__ uint64_t desc(const uint8_t *p) {
  //! fault atom_32 wrong when N>=16: constexpr uint64_t fixed = 1ull << 62 | 32ull << 32 | 1ull << 16;
  constexpr uint64_t fixed = 1ull << 62 | 64ull << 32 | 1ull << 16;
  return fixed | (smem_u32(p) & 0x3ffff) >> 4;
}

#define R4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define R64(i) R16(i), R16(i + 16), R16(i + 32), R16(i + 48)
#define L64 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27," \
            "%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52," \
            "%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define L128 L64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86," \
             "%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108," \
             "%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
//! fault unsigned_a wrong: #define TYPES "k32.s32.u8.s8 {"
#define TYPES "k32.s32.s8.s8 {"
// d += a * b for 64 rows, N columns and 32 bytes of K.
template <int N>
static __device__ __forceinline__ void wgmma(int (&d)[N / 2], uint64_t a, uint64_t b) {
  if constexpr (N == 128)
    asm volatile("wgmma.mma_async.sync.aligned.m64n128" TYPES L64 "}, %64, %65, 1;"
                 : R64(0) : "l"(a), "l"(b));
  else
    asm volatile("wgmma.mma_async.sync.aligned.m64n256" TYPES L128 "}, %128, %129, 1;"
                 : R64(0), R64(64) : "l"(a), "l"(b));
}

// The block's tile of the pair i. Pairs go in groups of GROUP pair rows, so that blocks at work together share
// columns of b in L2.
static __device__ __forceinline__ void tile_at(int i, int rows, int cols, int rank, int &m0, int &n0) {
  const int per = GROUP * cols, g = i / per, left = min(GROUP, rows - g * GROUP);
  m0 = ((g * GROUP + i % per % left) * PM + (PAIR_M ? rank : 0)) * BM;
  n0 = (i % per / left * PN + (PAIR_M ? 0 : rank)) * BN;
}

//! kernel grid=min(cdiv(M,BM*(PAIR_M?2:1))*cdiv(N,BN*(PAIR_M?1:2)),SMS/2)*2 block=384 smem=33792+STAGES*(BM+BN)*128 regs=168 read=max(K*(M+N),K*(cdiv(N,BN)*M/(PAIR_M?1:2)+cdiv(M,BM)*N/(PAIR_M?2:1))) once=K*(M+N) write=2*M*N inflight=(STAGES-1)*(BM+BN)*128 ops=M*N*K/500 tc8i=2*K*cdiv(M,BM)*BM*cdiv(N,BN)*BN eff=80 chain=LAT+K/128*LAT/(STAGES-1) tiles=cdiv(M,BM)*cdiv(N,BN)
static __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1)
    gemm_kernel(const __grid_constant__ CUtensorMap ta, const __grid_constant__ CUtensorMap tb,
                const __grid_constant__ CUtensorMap tc, const float *sa, const float *sb, int M, int N, int K) {
  extern __shared__ __align__(1024) uint8_t raw[];
  Smem &s = *(Smem *)raw;
  const int wg = threadIdx.x / 128, rank = blockIdx.x % 2;
  const int rows = (M + BM * PM - 1) / (BM * PM), pairs = rows * ((N + BN * PN - 1) / (BN * PN));
  //! fault k_tail wrong when K%128!=0&&K>128: const int kt = K / BK;
  const int kt = (K + BK - 1) / BK;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      bar_init(&s.full[i], 1);
      bar_init(&s.empty[i], 16);  // the consumer warps of both blocks
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_sync();  // no load may reach the other block before its barriers are there
  int stage = 0;
  uint32_t phase = 0;
  if (wg == 0) {  // producer: one thread keeps the ring full
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      for (int i = blockIdx.x / 2; i < pairs; i += gridDim.x / 2) {
        int m0, n0;
        //! fault tile_rank compile: tile_at(i, rows, pairs / rows, m0, n0);
        //! says tile_rank: too few arguments in function call
        tile_at(i, rows, pairs / rows, rank, m0, n0);
        //! fault same_half wrong when PAIR_M==1?N>BN/2:M>BM/2: const int da = 0, db = 0;
        const int da = PAIR_M ? 0 : rank * LOAD_A, db = PAIR_M ? rank * LOAD_B : 0;
        for (int k = 0; k < kt; ++k) {
          bar_wait(&s.empty[stage], phase ^ 1);
          bar_expect(&s.full[stage], TX);
          //! fault bar_value compile: tma_load<!PAIR_M>(&s.a[stage][LOAD_A * rank], &ta, k * BK, m0 + da, s.full[stage]);
          //! says bar_value: no instance of function template "tma_load" matches the argument list
          tma_load<!PAIR_M>(&s.a[stage][(PAIR_M ? 0 : rank * LOAD_A) * 128], &ta, k * BK, m0 + da, &s.full[stage]);
          tma_load<PAIR_M>(&s.b[stage][(PAIR_M ? rank * LOAD_B : 0) * 128], &tb, k * BK, n0 + db, &s.full[stage]);
          if (++stage == STAGES) stage = 0, phase ^= 1;
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int w = wg - 1, lane = threadIdx.x % 128, row = lane / 8 % 2 * 8 + lane % 8;
    const uint32_t out = smem_u32(s.c[w][0]) + (lane / 32 * 16 + row) * 128;  // the row that a lane stores in stmatrix
    int d[MT][BN / 2];
    if (SKEW > 0 && w == 1) asm volatile("bar.sync 1, 256;" ::: "memory");
    bool first = SKEW > 0 && w == 0;
    for (int i = blockIdx.x / 2; i < pairs; i += gridDim.x / 2) {
      int m0, n0;
      tile_at(i, rows, pairs / rows, rank, m0, n0);
      m0 += w * MT * 64;
#pragma unroll
      for (int j = 0; j < MT * BN / 2; ++j) d[j / (BN / 2)][j % (BN / 2)] = 0;
      int prev = -1;
      for (int k = 0; k < kt; ++k) {
        bar_wait(&s.full[stage], phase);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int kk = 0; kk < 128; kk += 32)
#pragma unroll
          for (int t = 0; t < MT; ++t)
            //! fault desc_pair compile: wgmma<BN>(d[t], desc(s.a[stage], (w * MT + t) * 64 * 128 + kk), desc(&s.b[stage][kk]));
            //! says desc_pair: too many arguments in function call
            wgmma<BN>(d[t], desc(&s.a[stage][(w * MT + t) * 64 * 128 + kk]), desc(&s.b[stage][kk]));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (first && k == min(SKEW, kt) - 1) {
          asm volatile("bar.arrive 1, 256;" ::: "memory");
          first = false;
        }
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (prev >= 0 && lane % 32 < 2) bar_arrive(&s.empty[prev], lane % 32);  // both producers wait for all of us
        prev = stage;
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (lane % 32 < 2) bar_arrive(&s.empty[prev], lane % 32);
      const int r = m0 + lane / 32 * 16 + lane % 32 / 4;
#pragma unroll
      for (int q = 0; q < MT * BN / 64; ++q) {  // 64 x 64 outputs through each of two pieces of shared memory in turn
        const int t = q / (BN / 64), x = q % (BN / 64) * 64;
        const float fa[2] = {r + t * 64 < M ? sa[r + t * 64] : 0.f, r + t * 64 + 8 < M ? sa[r + t * 64 + 8] : 0.f};
        const auto pair = [&](int j, int h) {  // row r or r + 8, columns of group j
          const int col = n0 + x + j * 8 + lane % 4 * 2, *v = &d[t][x / 2 + j * 4 + h * 2];
          //! fault pair_sb wrong: const float2 w = col < N ? make_float2(sb[col], sb[col]) : make_float2(0.f, 0.f);
          const float2 w = col < N ? *(const float2 *)&sb[col] : make_float2(0.f, 0.f);
          const __half2 p = __floats2half2_rn((float)v[0] * fa[h] * w.x, (float)v[1] * fa[h] * w.y);
          return *(const uint32_t *)&p;
        };
        if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        asm volatile("bar.sync %0, 128;" ::"r"(2 + w) : "memory");
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
          //! fault plain_rows wrong when M>=2: const uint32_t p = out + q % 2 * 8192 + (j + lane % 32 / 16) * 16;
          const uint32_t p = out + q % 2 * 8192 + ((j + lane % 32 / 16) ^ lane % 8) * 16;
          //! fault swap_8 wrong: const uint32_t lo = pair(j, 1), hi = pair(j, 0);
          const uint32_t lo = pair(j, 0), hi = pair(j, 1);
          asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                       ::"r"(p), "r"(lo), "r"(hi), "r"(pair(j + 1, 0)), "r"(pair(j + 1, 1)) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("bar.sync %0, 128;" ::"r"(2 + w) : "memory");
        if (lane == 0) {
          if (m0 + t * 64 < M && n0 + x < N) tma_store(&tc, n0 + x, m0 + t * 64, smem_u32(s.c[w][q % 2]));
          asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
      }
    }
    if (lane == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
  cluster_sync();  // the other block may still arrive at barriers here
}

static bool tensor_map(CUtensorMap *map, CUtensorMapDataType type, const void *p, int rows, int cols, int box_rows) {
  const int bytes = type == CU_TENSOR_MAP_DATA_TYPE_UINT8 ? 1 : 2;
  cuuint64_t dim[2] = {(cuuint64_t)cols, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)cols * bytes};
  cuuint32_t box[2] = {128u / bytes, (cuuint32_t)box_rows}, step[2] = {1, 1};
  return cuTensorMapEncodeTiled(map, type, 2, (void *)p, dim, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

extern "C" cudaError_t int8_gemm(const int8_t *a, const int8_t *b, const float *sa, const float *sb, __half *c,
                                 int M, int N, int K, void * /*workspace*/, size_t /*workspace_bytes*/,
                                 cudaStream_t stream) {
  if (M < 1 || N < 8 || K < 16 || N % 8 || K % 16) return cudaErrorNotSupported;
  const int64_t pairs = ((int64_t)M + BM * PM - 1) / (BM * PM) * ((N + BN * PN - 1) / (BN * PN));
  if (pairs > 0x3fffffff) return cudaErrorNotSupported;
  CUtensorMap ta, tb, tc;
  if (!tensor_map(&ta, CU_TENSOR_MAP_DATA_TYPE_UINT8, a, M, K, LOAD_A) ||
      !tensor_map(&tb, CU_TENSOR_MAP_DATA_TYPE_UINT8, b, N, K, LOAD_B) ||
      !tensor_map(&tc, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, c, M, N, 64))
    return cudaErrorInvalidValue;
  int dev, sms;
  cudaError_t e = cudaGetDevice(&dev);
  if (e == cudaSuccess) e = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev);
  if (e == cudaSuccess)
    e = cudaFuncSetAttribute(gemm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem));
  if (e != cudaSuccess) return e;
  const int grid = (int)(pairs < sms / 2 ? pairs : sms / 2) * 2;
  gemm_kernel<<<grid, THREADS, sizeof(Smem), stream>>>(ta, tb, tc, sa, sb, M, N, K);
  return cudaGetLastError();
}
