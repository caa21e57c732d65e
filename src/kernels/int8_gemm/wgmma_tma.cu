// int8 GEMM for sm_90a: a producer thread feeds a ring of 128-byte wide TMA tiles, consumer warpgroups run s8 wgmma
// into int32 registers at twice the rate of fp16, and the scales of row and column are applied on the way out.
// The grid is persistent: the producer runs ahead into the next tile while the present one is stored.
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

//! idea s8 wgmma fed by a TMA ring, persistent tiles
//! needs tma wgmma setmaxnreg
//! legal BM*BN<=32768
//! param 64 128 256
constexpr int BM = 128;      // tile rows
//! param 64 128 256
constexpr int BN = 256;      // tile columns
//! param 2 3 4 5 6
constexpr int STAGES = 4;    // tiles in flight
//! param 1 4 8 16
constexpr int GROUP_M = 8;   // tile rows per L2 group
constexpr int BK = 128;       // a tile row is 128 bytes, the width of the swizzle
constexpr int CONSUMERS = BM == 64 ? 1 : 2, MT = BM / (64 * CONSUMERS);  // warpgroups; 64-row products in each
constexpr int THREADS = 128 * (1 + CONSUMERS), PER_SM = BM == 64 && BN < 256 ? 2 : 1;
constexpr int TX = (BM + BN) * 128;  // bytes per stage

struct Smem {
  alignas(1024) uint8_t a[STAGES][BM * 128];
  alignas(1024) uint8_t b[STAGES][BN * 128];
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
static __device__ __forceinline__ void bar_arrive(uint64_t *b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_u32(b)) : "memory");
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

// Matrix descriptor: K-major rows of 128 bytes, 128-byte swizzle, groups of eight rows 1024 bytes apart.
static __device__ __forceinline__ uint64_t desc(const uint8_t *p) {
  constexpr uint64_t fixed = 1ull << 62 | 64ull << 32 | 1ull << 16;
  return fixed | (smem_u32(p) & 0x3ffff) >> 4;
}

#define R4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define R64(i) R16(i), R16(i + 16), R16(i + 32), R16(i + 48)
#define L0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27," \
           "%28,%29,%30,%31"
#define L1 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57," \
           "%58,%59,%60,%61,%62,%63"
#define L2 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89," \
           "%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111," \
           "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
//! fault unsigned_b wrong: #define TYPES "k32.s32.s8.u8 {"
#define TYPES "k32.s32.s8.s8 {"
// d += a * b for 64 rows, N columns and 32 bytes of K.
template <int N>
static __device__ __forceinline__ void wgmma(int (&d)[N / 2], uint64_t a, uint64_t b) {
  if constexpr (N == 64)
    asm volatile("wgmma.mma_async.sync.aligned.m64n64" TYPES L0 "}, %32, %33, 1;"
                 : R16(0), R16(16) : "l"(a), "l"(b));
  else if constexpr (N == 128)
    asm volatile("wgmma.mma_async.sync.aligned.m64n128" TYPES L0 L1 "}, %64, %65, 1;"
                 : R64(0) : "l"(a), "l"(b));
  else
    asm volatile("wgmma.mma_async.sync.aligned.m64n256" TYPES L0 L1 L2 "}, %128, %129, 1;"
                 : R64(0), R64(64) : "l"(a), "l"(b));
}

// Tiles in groups of GROUP_M tile rows, so that blocks at work together share columns of b in L2.
static __device__ __forceinline__ void tile_at(int i, int rows, int cols, int &m0, int &n0) {
  const int per = GROUP_M * cols, g = i / per, left = min(GROUP_M, rows - g * GROUP_M);
  m0 = (g * GROUP_M + i % per % left) * BM;
  n0 = i % per / left * BN;
}

//! kernel grid=min(cdiv(M,BM)*cdiv(N,BN),SMS*(1+(BM==64&&BN<256))) block=BM>64?384:256 smem=1024+STAGES*(BM+BN)*128 regs=BM>64?168:BN<256?128:240 read=K*(cdiv(N,BN)*M+cdiv(M,BM)*N) once=K*(M+N) write=2*M*N inflight=(STAGES-1)*(BM+BN)*128 ops=M*N*K/400 tc8i=2*K*cdiv(M,BM)*BM*cdiv(N,BN)*BN eff=min(84,39+BM*BN/512)*(14+STAGES)/19 chain=LAT+K/128*LAT/(STAGES-1) tiles=cdiv(M,BM)*cdiv(N,BN)
static __global__ void __launch_bounds__(THREADS, PER_SM) gemm_kernel(const __grid_constant__ CUtensorMap ta,
                                                                      const __grid_constant__ CUtensorMap tb,
                                                                      const float *sa, const float *sb, __half *c,
                                                                      int M, int N, int K) {
  extern __shared__ __align__(1024) uint8_t raw[];
  Smem &s = *(Smem *)raw;
  const int wg = threadIdx.x / 128, rows = (M + BM - 1) / BM, tiles = rows * ((N + BN - 1) / BN);
  //! fault k_tail wrong when K%128!=0&&K>128: const int kt = K / BK;
  const int kt = (K + BK - 1) / BK;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      bar_init(&s.full[i], 1);
      bar_init(&s.empty[i], CONSUMERS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  int stage = 0;
  uint32_t phase = 0;
  if (wg == 0) {  // producer: one thread keeps the ring full
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x != 0) return;
    for (int i = blockIdx.x; i < tiles; i += gridDim.x) {
      int m0, n0;
      tile_at(i, rows, tiles / rows, m0, n0);
      for (int k = 0; k < kt; ++k) {
        bar_wait(&s.empty[stage], phase ^ 1);
        bar_expect(&s.full[stage], TX);
        //! fault map_value compile: tma_load(s.a[stage], ta, k * BK, m0, &s.full[stage]);
        //! says map_value: no suitable conversion function from "const CUtensorMap" to "const CUtensorMap *" exists
        tma_load(s.a[stage], &ta, k * BK, m0, &s.full[stage]);
        tma_load(s.b[stage], &tb, k * BK, n0, &s.full[stage]);
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(PER_SM == 2 ? 224 : 240));
  const int lane = threadIdx.x % 128, w0 = (wg - 1) * MT * 64;  // the warpgroup's first row in the tile
  int d[MT][BN / 2];
  for (int i = blockIdx.x; i < tiles; i += gridDim.x) {
    int m0, n0;
    tile_at(i, rows, tiles / rows, m0, n0);
#pragma unroll
    for (int j = 0; j < MT * BN / 2; ++j) {
      d[j / (BN / 2)][j % (BN / 2)] = 0;
    }
    int prev = -1;
    for (int k = 0; k < kt; ++k) {
      bar_wait(&s.full[stage], phase);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int kk = 0; kk < 128; kk += 32)
#pragma unroll
        for (int t = 0; t < MT; ++t)
          wgmma<BN>(d[t], desc(&s.a[stage][(w0 + t * 64) * 128 + kk]), desc(&s.b[stage][kk]));
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (prev >= 0 && lane == 0) bar_arrive(&s.empty[prev]);
      prev = stage;
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (lane == 0) bar_arrive(&s.empty[prev]);
#pragma unroll
    for (int q = 0; q < MT * 2; ++q) {  // rows r and r + 8 of each 64-row product
      const int row = m0 + w0 + q / 2 * 64 + lane / 32 * 16 + lane % 32 / 4 + q % 2 * 8;
      if (row >= M) continue;
      //! fault row_scale wrong when M>=2: const float s_row = sa[m0];
      //! fault shadow compile: const float s_row = sa[m];
      //! says shadow: identifier "m" is undefined
      const float s_row = sa[row];
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
        const int col = n0 + j * 8 + lane % 4 * 2;
        if (col >= N) continue;
        const int *v = &d[q / 2][j * 4 + q % 2 * 2];
        const float2 w = *(const float2 *)&sb[col];
        //! fault sb_pair wrong: *(__half2 *)&c[(size_t)row * N + col] = __floats2half2_rn(v[0] * s_row * w.x, v[1] * s_row * w.x);
        //! fault narrow_sum wrong: *(__half2 *)&c[(size_t)row * N + col] = __floats2half2_rn((short)v[0] * s_row * w.x, (short)v[1] * s_row * w.y);
        //! fault store_type compile: *(__half2 *)&c[(size_t)row * N + col] = make_float2(v[0] * s_row * w.x, v[1] * s_row * w.y);
        //! says store_type: no operator "=" matches these operands
        *(__half2 *)&c[(size_t)row * N + col] = __floats2half2_rn(v[0] * s_row * w.x, v[1] * s_row * w.y);
      }
    }
  }
}

static bool tensor_map(CUtensorMap *map, const void *p, int rows, int cols, int box_rows) {
  cuuint64_t dim[2] = {(cuuint64_t)cols, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)cols * 1};
  cuuint32_t box[2] = {BK, (cuuint32_t)box_rows}, step[2] = {1, 1};
  return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *)p, dim, stride, box, step,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

extern "C" cudaError_t int8_gemm(const int8_t *a, const int8_t *b, const float *sa, const float *sb, __half *c,
                                 int M, int N, int K, void * /*workspace*/, size_t /*workspace_bytes*/,
                                 cudaStream_t stream) {
  if (M < 1 || N < 8 || K < 16 || N % 8 || K % 16) return cudaErrorNotSupported;
  const int64_t tiles = ((int64_t)M + BM - 1) / BM * ((N + BN - 1) / BN);
  if (tiles > 0x3fffffff) return cudaErrorNotSupported;
  CUtensorMap ta, tb;
  if (!tensor_map(&ta, a, M, K, BM) || !tensor_map(&tb, b, N, K, BN)) return cudaErrorInvalidValue;
  int dev, sms;
  cudaError_t e = cudaGetDevice(&dev);
  if (e == cudaSuccess) e = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev);
  if (e == cudaSuccess)
    e = cudaFuncSetAttribute(gemm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem));
  if (e != cudaSuccess) return e;
  const int grid = (int)(tiles < sms * PER_SM ? tiles : sms * PER_SM);
  //! fault stream_missing compile: gemm_kernel<<<grid, THREADS, sizeof(Smem), stream>>>(ta, tb, sa, sb, M, N, K);
  //! says stream_missing: argument of type "int" is incompatible with parameter of type "__half *"
  gemm_kernel<<<grid, THREADS, sizeof(Smem), stream>>>(ta, tb, sa, sb, c, M, N, K);
  return cudaGetLastError();
}
