// fp16 GEMM for sm_90a: two blocks of a cluster take neighbouring tiles and share one operand, of which each loads half
// and multicasts it to both, so that L2 gives a third less. Persistent wgmma consumers fed by a TMA ring; c leaves
// through stmatrix and TMA stores, which drain under the next tile's products.
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

//! idea pairs of blocks with a multicast operand and wgmma
//! needs tma cluster wgmma setmaxnreg
//! legal BM*BN<=32768
//! param 128 256
constexpr int BM = 128;       // tile rows
//! param 128 256
constexpr int BN = 256;       // tile columns
//! param 3 4 5 6
constexpr int STAGES = 4;     // tiles in flight
//! param 2 4 8 16
constexpr int GROUP = 8;      // rows of pairs per L2 group
//! param 0 1
constexpr int SHARE_A = 0;    // 0: a pair's tiles lie one above the other and share b; 1: side by side, a
constexpr int BK = 64;        // a tile row is 128 bytes, the width of the swizzle
constexpr int CONSUMERS = 2, MT = BM / (64 * CONSUMERS);  // warpgroups; 64-row products in each
constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int TX = (BM + BN) * 128;                                          // bytes per stage
constexpr int BOX_A = SHARE_A ? BM / 2 : BM, BOX_B = SHARE_A ? BN : BN / 2;  // rows that a block loads of each

struct Smem {
  alignas(1024) uint8_t a[STAGES][BM * 128];
  alignas(1024) uint8_t b[STAGES][BN * 128];
  alignas(1024) uint8_t c[CONSUMERS][2][64 * 128];  // 64 x 64 pieces on their way out
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
// Arrives at the barrier in the same place of block `rank` of the cluster.
static __device__ __forceinline__ void bar_arrive_at(uint64_t *b, int rank) {
  asm volatile("{\n.reg .b32 far;\nmapa.shared::cluster.u32 far, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [far];\n}"
               ::"r"(smem_u32(b)), "r"(rank) : "memory");
}
static __device__ __forceinline__ void bar_wait(uint64_t *b, uint32_t phase) {
  asm volatile("{\n.reg .pred p;\n"
               "W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra W;\nD:\n}"
               ::"r"(smem_u32(b)), "r"(phase) : "memory");
}
static __device__ __forceinline__ void tma_load(void *dst, const CUtensorMap *map, int x, int y, uint64_t *bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3}], [%4];"
               ::"r"(smem_u32(dst)), "l"(map), "r"(x), "r"(y), "r"(smem_u32(bar)) : "memory");
}
// The same into both blocks, and counted by the barrier of each.
static __device__ __forceinline__ void tma_multicast(void *dst, const CUtensorMap *map, int x, int y, uint64_t *bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1, {%2, %3}], [%4], %5;"
               ::"r"(smem_u32(dst)), "l"(map), "r"(x), "r"(y), "r"(smem_u32(bar)), "h"((uint16_t)3) : "memory");
}
static __device__ __forceinline__ void tma_store(const CUtensorMap *map, int x, int y, const void *src) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
               ::"l"(map), "r"(x), "r"(y), "r"(smem_u32(src)) : "memory");
}
static __device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
static __device__ __forceinline__ uint32_t pack(float x, float y) {
  const __half2 h = __floats2half2_rn(x, y);
  return *(const uint32_t *)&h;
}

// Matrix descriptor: K-major rows of 128 bytes, 128-byte swizzle, groups of eight rows 1024 bytes apart.
static __device__ __forceinline__ uint64_t desc(const uint8_t *p) {
  constexpr uint64_t fixed = 1ull << 62 | 64ull << 32 | 1ull << 16;
  return fixed | (smem_u32(p) & 0x3ffff) >> 4;
}

#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define R64(i) R16(i), R16(i + 16), R16(i + 32), R16(i + 48)
#define L0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27," \
           "%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,"    \
           "%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define L1 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89," \
           "%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"     \
           "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
// d = a * b + (more ? d : 0) for 64 rows, N columns and 32 bytes of K.
template <int N>
static __device__ __forceinline__ void wgmma(float (&d)[N / 2], uint64_t a, uint64_t b, int more) {
  if constexpr (N == 128)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" L0 "}, %64, %65, p, 1, 1, 0, 0;\n}"
                 : R64(0) : "l"(a), "l"(b), "r"(more));
  else
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" L0 L1 "}, %128, %129, p, 1, 1, 0, 0;\n}"
                 : R64(0), R64(64) : "l"(a), "l"(b), "r"(more));
}

// Pairs in groups of GROUP rows, so that clusters at work together share columns of b in L2.
static __device__ __forceinline__ void tile_at(int i, int rows, int cols, int rank, int &m0, int &n0) {
  const int per = GROUP * cols, g = i / per, left = min(GROUP, rows - g * GROUP);
  const int r = g * GROUP + i % per % left, c = i % per / left;
  m0 = (SHARE_A ? r : r * 2 + rank) * BM;
  n0 = (SHARE_A ? c * 2 + rank : c) * BN;
}

//! kernel grid=2*min(cdiv(M,BM*(2-SHARE_A))*cdiv(N,BN*(1+SHARE_A)),SMS/2) block=384 smem=1024+STAGES*(BM+BN)*128+32768 regs=168 read=K*(cdiv(N,BN)*M*(2-SHARE_A)+cdiv(M,BM)*N*(1+SHARE_A)) once=2*K*(M+N) write=2*M*N inflight=(STAGES-1)*(BM+BN)*128 ops=M*N*K/250 tc16=4*K*cdiv(M,BM*(2-SHARE_A))*BM*cdiv(N,BN*(1+SHARE_A))*BN eff=min(80,40+BM*BN/660)*(16+STAGES)/20 chain=LAT+K/64*LAT/(STAGES-1) tiles=2*cdiv(M,BM*(2-SHARE_A))*cdiv(N,BN*(1+SHARE_A))
static __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1)
    gemm_kernel(const __grid_constant__ CUtensorMap ta, const __grid_constant__ CUtensorMap tb,
                const __grid_constant__ CUtensorMap tc, int M, int N, int K) {
  extern __shared__ __align__(1024) uint8_t raw[];
  Smem &s = *(Smem *)raw;
  const int wg = threadIdx.x / 128, rank = blockIdx.x % 2, first = blockIdx.x / 2, step = gridDim.x / 2;
  const int rows = (M + BM * (2 - SHARE_A) - 1) / (BM * (2 - SHARE_A));  // of pairs
  const int cols = (N + BN * (1 + SHARE_A) - 1) / (BN * (1 + SHARE_A)), pairs = rows * cols;
  //! fault k_tail wrong when K%64!=0&&K>64: const int kt = K / BK;
  const int kt = (K + BK - 1) / BK;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      bar_init(&s.full[i], 1);
      bar_init(&s.empty[i], 2 * CONSUMERS);  // the consumers of both blocks
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_sync();
  int stage = 0;
  uint32_t phase = 0;
  if (wg == 0) {  // producer: one thread keeps the ring full
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      for (int i = first; i < pairs; i += step) {
        int m0, n0;
        //! fault rank_left compile: tile_at(i, rows, cols, m0, n0);
        //! says rank_left: too few arguments in function call
        tile_at(i, rows, cols, rank, m0, n0);
        for (int k = 0; k < kt; ++k) {
          bar_wait(&s.empty[stage], phase ^ 1);
          bar_expect(&s.full[stage], TX);
          if constexpr (SHARE_A) {
            const int h = rank * BOX_A;
            //! fault same_half wrong when SHARE_A==0&&N>BN/2||SHARE_A==1&&M>BM/2: tma_multicast(&s.a[stage][h * 128], &ta, k * BK, m0, &s.full[stage]);
            tma_multicast(&s.a[stage][h * 128], &ta, k * BK, m0 + h, &s.full[stage]);
            tma_load(s.b[stage], &tb, k * BK, n0, &s.full[stage]);
          } else {
            const int h = rank * BOX_B;
            //! fault map_value compile: tma_load(s.a[stage], ta, k * BK, m0, &s.full[stage]);
            //! says map_value: no suitable conversion function from "const CUtensorMap" to "const CUtensorMap *" exists
            tma_load(s.a[stage], &ta, k * BK, m0, &s.full[stage]);
            //! fault same_half wrong when SHARE_A==0&&N>BN/2||SHARE_A==1&&M>BM/2: tma_multicast(&s.b[stage][h * 128], &tb, k * BK, n0, &s.full[stage]);
            tma_multicast(&s.b[stage][h * 128], &tb, k * BK, n0 + h, &s.full[stage]);
          }
          if (++stage == STAGES) stage = 0, phase ^= 1;
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int lane = threadIdx.x % 128, w0 = (wg - 1) * MT * 64;  // the warpgroup's first row in the tile
    // Where stmatrix puts the lane's row of a piece: chunks of 16 bytes are XORed with the row, as TMA reads them.
    const int out = (lane / 32 * 16 + lane % 16) * 128;
    float d[MT][BN / 2] = {};
    for (int i = first; i < pairs; i += step) {
      int m0, n0, prev = -1;
      tile_at(i, rows, cols, rank, m0, n0);
      for (int k = 0; k < kt; ++k) {
        bar_wait(&s.full[stage], phase);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int kk = 0; kk < 128; kk += 32)
#pragma unroll
          for (int t = 0; t < MT; ++t)
            //! fault not_cleared wrong when cdiv(M,BM*(2-SHARE_A))*cdiv(N,BN*(1+SHARE_A))>SMS/2: wgmma<BN>(d[t], desc(&s.a[stage][(w0 + t * 64) * 128 + kk]), desc(&s.b[stage][kk]), i + k + kk);
            wgmma<BN>(d[t], desc(&s.a[stage][(w0 + t * 64) * 128 + kk]), desc(&s.b[stage][kk]), k + kk);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (prev >= 0 && lane < 2) bar_arrive_at(&s.empty[prev], lane);
        prev = stage;
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (lane < 2) bar_arrive_at(&s.empty[prev], lane);
#pragma unroll
      for (int t = 0; t < MT; ++t)
#pragma unroll
        for (int q = 0; q < BN / 64; ++q) {
          uint8_t *buf = s.c[wg - 1][q % 2];  // the other one may be on its way
          if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
          asm volatile("bar.sync %0, 128;" ::"r"(wg) : "memory");
#pragma unroll
          for (int p = 0; p < 4; ++p) {
            const float *v = &d[t][q * 32 + p * 8];
            //! fault plain_rows wrong when M>=2: const uint32_t at = smem_u32(buf) + out + (p * 2 + lane % 32 / 16) * 16;
            const uint32_t at = smem_u32(buf) + out + ((p * 2 + lane % 32 / 16) ^ lane % 8) * 16;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                         //! fault row_swap wrong: "r"(pack(v[2], v[3])), "r"(pack(v[0], v[1])), "r"(pack(v[6], v[7])), "r"(pack(v[4], v[5]))
                         "r"(pack(v[0], v[1])), "r"(pack(v[2], v[3])), "r"(pack(v[4], v[5])), "r"(pack(v[6], v[7]))
                         : "memory");
          }
          asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
          asm volatile("bar.sync %0, 128;" ::"r"(wg) : "memory");
          if (lane == 0) {
            const int x = n0 + q * 64, y = m0 + w0 + t * 64;
            if (x < N && y < M) tma_store(&tc, x, y, buf);
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
          }
        }
    }
    if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  // A block leaves only when the other no longer arrives at its barriers.
  cluster_sync();
}

static bool tensor_map(CUtensorMap *map, const void *p, int rows, int cols, int box_rows) {
  cuuint64_t dim[2] = {(cuuint64_t)cols, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)cols * 2};
  cuuint32_t box[2] = {BK, (cuuint32_t)box_rows}, step[2] = {1, 1};
  //! fault step_value compile: return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, p, dim, stride, box, step,
  //! says step_value: argument of type "const void *" is incompatible with parameter of type "void *"
  return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)p, dim, stride, box, step,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

extern "C" cudaError_t gemm_fp16(const __half *a, const __half *b, __half *c, int M, int N, int K,
                                 void * /*workspace*/, size_t /*workspace_bytes*/, cudaStream_t stream) {
  if (M < 1 || N < 8 || K < 8 || N % 8 || K % 8) return cudaErrorNotSupported;
  const int64_t pairs = ((int64_t)M + BM * (2 - SHARE_A) - 1) / (BM * (2 - SHARE_A)) *
                        (((int64_t)N + BN * (1 + SHARE_A) - 1) / (BN * (1 + SHARE_A)));
  if (pairs > 0x3fffffff) return cudaErrorNotSupported;
  CUtensorMap ta, tb, tc;
  if (!tensor_map(&ta, a, M, K, BOX_A) || !tensor_map(&tb, b, N, K, BOX_B) || !tensor_map(&tc, c, M, N, 64))
    return cudaErrorInvalidValue;
  int dev, sms;
  cudaError_t e = cudaGetDevice(&dev);
  if (e == cudaSuccess) e = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev);
  if (e == cudaSuccess)
    e = cudaFuncSetAttribute(gemm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem));
  if (e != cudaSuccess) return e;
  const int grid = 2 * (int)(pairs < sms / 2 ? pairs : sms / 2);
  gemm_kernel<<<grid, THREADS, sizeof(Smem), stream>>>(ta, tb, tc, M, N, K);
  return cudaGetLastError();
}
