// Hopper's tensor cores at full width: one producer warp feeds a ring of TMA tiles, WG consumer warpgroups run
// wgmma on 64-row slices. A tile's columns are whole heads, so that columns i and i + D/2 lie in one thread and the
// rotation costs no exchange. Persistent blocks walk the tiles in row groups that share w in L2.
//! idea wgmma with TMA stages over whole heads
//! dtypes fp16 bf16
//! needs tma wgmma
//! legal D == 64 || D == 96 || D == 128 || D == 256
//! legal BN % D == 0
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using elem2 = __nv_bfloat162;
using elem2 = __half2;
//! dtype bf16: constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;

//! param 96 128 192 256
constexpr int BN = 128;    // tile columns, whole heads
//! param 1 2
constexpr int WG = 2;    // consumer warpgroups, 64 tokens each
//! param 2 3 4 5 6
constexpr int kStages = 4;
//! param 1 4 8 16
constexpr int kRowTiles = 8;  // tiles along the tokens that are walked before the next columns
constexpr int BM = 64 * WG;
constexpr int BK = 64;    // 128-byte swizzled rows
constexpr int kUnit = BN % 128 ? 96 : 128;  // columns of one wgmma
constexpr int kThreads = 128 * WG + 32;

struct Smem {
  alignas(1024) elem a[kStages][BM * BK];
  alignas(1024) elem b[kStages][BN * BK];
  alignas(8) uint64_t full[kStages], empty[kStages];
};
constexpr int kPerSm = sizeof(Smem) <= 112 * 1024 && WG == 1 ? 2 : 1;  // blocks per SM

static __device__ __forceinline__ uint32_t smem_u32(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void bar_init(uint64_t* b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_u32(b)), "r"(n));
}
static __device__ __forceinline__ void bar_arrive(uint64_t* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_u32(b)) : "memory");
}
static __device__ __forceinline__ void bar_wait(uint64_t* b, uint32_t phase) {
  asm volatile("{\n.reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra W;\n}"
               ::"r"(smem_u32(b)), "r"(phase) : "memory");
}
static __device__ __forceinline__ void tma_load(void* dst, const CUtensorMap* m, int x, int y, uint64_t* bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(smem_u32(dst)), "l"(m), "r"(x), "r"(y), "r"(smem_u32(bar)) : "memory");
}
// K-major operand with 128-byte swizzle: groups of 8 rows lie 1024 bytes apart.
static __device__ __forceinline__ uint64_t desc(const void* p) {
  //! fault group_stride wrong: return (uint64_t)(smem_u32(p) & 0x3FFFF) >> 4 | 1ull << 16 | 32ull << 32 | 1ull << 62;
  return (uint64_t)(smem_u32(p) & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define N10(a) #a "0,%" #a "1,%" #a "2,%" #a "3,%" #a "4,%" #a "5,%" #a "6,%" #a "7,%" #a "8,%" #a "9"
template <int n>
static __device__ __forceinline__ void wgmma(float (&d)[n / 2], uint64_t a, uint64_t b) {
  if constexpr (n == 96) {
    //! dtype bf16: asm volatile("wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
    asm volatile("wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%" N10(1) ",%" N10(2) ",%" N10(3) ","
                 "%40,%41,%42,%43,%44,%45,%46,%47}, %48, %49, 1, 1, 1, 0, 0;"
                 : R16(0), R16(16), R16(32) : "l"(a), "l"(b));
  } else {
    //! dtype bf16: asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%" N10(1) ",%" N10(2) ",%" N10(3) ",%" N10(4) ",%" N10(5) ","
                 "%60,%61,%62,%63}, %64, %65, 1, 1, 1, 0, 0;"
                 : R16(0), R16(16), R16(32), R16(48) : "l"(a), "l"(b));
  }
}

// Tile i: kRowTiles rows of tiles are walked down before the columns advance.
static __device__ __forceinline__ void tile_at(int i, int mt, int nt, int& m, int& n) {
  int per = kRowTiles * nt, g = i / per, rows = min(kRowTiles, mt - g * kRowTiles);
  m = g * kRowTiles + i % per % rows;
  n = i % per / rows;
}

//! kernel grid=min(SMS*(WG<2&&kStages*(64+BN)<889?2:1),cdiv(T,64*WG)*cdiv((H+2*HKV)*D,BN)) block=128*WG+32 smem=kStages*(64*WG+BN)*128+1024 regs=BN>128?168:124 read=2*E*cdiv(T,64*WG)*(H+2*HKV)*D/BN*(64*WG+BN) once=2*E*(T+(H+2*HKV)*D) write=2*T*(H+2*HKV)*D inflight=kStages*24576 tc16=128*WG*E*cdiv(T,64*WG)*(H+2*HKV)*D eff=20+BN/8+19*WG chain=E/64*(BN+60) tiles=cdiv(T,64*WG)*cdiv((H+2*HKV)*D,BN)
template <int D>
static __global__ __launch_bounds__(kThreads, kPerSm) void qkv_kernel(const __grid_constant__ CUtensorMap tx,
                                                                      const __grid_constant__ CUtensorMap tw,
                                                                      const int* __restrict__ pos,
                                                                      const float* __restrict__ table, elem* q, elem* k,
                                                                      elem* v, int T, int H, int HKV, int E) {
  extern __shared__ __align__(1024) uint8_t raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);
  int wg = threadIdx.x / 128, heads = H + 2 * HKV;
  int mt = (T + BM - 1) / BM, nt = (heads * D + BN - 1) / BN, kt = (E + BK - 1) / BK;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      bar_init(&s.full[i], 1);
      //! fault barrier_type compile: bar_init(s.empty[i], WG);
      //! says barrier_type: argument of type "uint64_t" (aka "unsigned long") is incompatible with parameter of type "uint64_t *" (aka "unsigned long *")
      bar_init(&s.empty[i], WG);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  int stage = 0;
  uint32_t phase = 0;
  if (wg == WG) {
    if (threadIdx.x % 32) return;
    for (int i = blockIdx.x; i < mt * nt; i += gridDim.x) {
      int m, n;
      tile_at(i, mt, nt, m, n);
      for (int c = 0; c < kt; ++c) {
        bar_wait(&s.empty[stage], phase ^ 1);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     ::"r"(smem_u32(&s.full[stage])), "r"((BM + BN) * BK * 2) : "memory");
        tma_load(s.a[stage], &tx, c * BK, m * BM, &s.full[stage]);
        //! fault map_argument compile: tma_load(s.b[stage], tw, c * BK, n * BN, &s.full[stage]);
        //! says map_argument: no suitable conversion function from "const CUtensorMap" to "const CUtensorMap *" exists
        tma_load(s.b[stage], &tw, c * BK, n * BN, &s.full[stage]);
        if (++stage == kStages) stage = 0, phase ^= 1;
      }
    }
    return;
  }
  int lane = threadIdx.x % 128;
  for (int i = blockIdx.x; i < mt * nt; i += gridDim.x) {
    int m, n, prev = -1;
    tile_at(i, mt, nt, m, n);
    float d[BN / kUnit][kUnit / 2] = {};
    for (int c = 0; c < kt; ++c) {
      bar_wait(&s.full[stage], phase);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      //! fault depth_half wrong: for (int kk = 0; kk < BK / 2; kk += 16)
      for (int kk = 0; kk < BK; kk += 16)
#pragma unroll
        for (int u = 0; u < BN / kUnit; ++u)
          //! fault unit_rows wrong when BN > 128: wgmma<kUnit>(d[u], desc(&s.a[stage][wg * 64 * BK + kk]), desc(&s.b[stage][kk]));
          wgmma<kUnit>(d[u], desc(&s.a[stage][wg * 64 * BK + kk]), desc(&s.b[stage][u * kUnit * BK + kk]));
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (prev >= 0 && lane == 0) bar_arrive(&s.empty[prev]);
      prev = stage;
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (lane == 0) bar_arrive(&s.empty[prev]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      //! fault fragment_rows wrong when T >= 16: int t = m * BM + wg * 64 + lane / 32 * 16 + lane % 32 / 4 + (1 - h) * 8;
      int t = m * BM + wg * 64 + lane / 32 * 16 + lane % 32 / 4 + h * 8;
      if (t >= T) continue;
      const float* row = table + (size_t)pos[t] * D;
#pragma unroll
      for (int g = 0; g < BN / D; ++g) {
        int head = n * (BN / D) + g;
        if (head >= heads) break;
        elem* out = head < H ? q + ((size_t)t * H + head) * D : nullptr;
        if (head >= H) out = (head < H + HKV ? k : v) + ((size_t)t * HKV + (head - H) % HKV) * D;
        //! fault keys_plain wrong: bool rotate = head < H;
        bool rotate = head < H + HKV;
#pragma unroll
        for (int j = 0; j < D / 16; ++j) {
          // Column j * 8 of the head and its partner D / 2 further on, two values each.
          int c = j * 8 + lane % 4 * 2, lo = g * D + j * 8, hi = lo + D / 2;
          const float* l = &d[lo / kUnit][lo % kUnit / 2 + h * 2];
          const float* u = &d[hi / kUnit][hi % kUnit / 2 + h * 2];
          float2 cs = rotate ? __ldg(reinterpret_cast<const float2*>(row + c)) : make_float2(1.f, 1.f);
          //! fault sine_load compile: float2 sn = rotate ? __ldg(reinterpret_cast<const float2*>(row + D / 2 + c)) : 0.f;
          //! says sine_load: operand types are incompatible ("float2" and "float")
          float2 sn = rotate ? __ldg(reinterpret_cast<const float2*>(row + D / 2 + c)) : make_float2(0.f, 0.f);
          *reinterpret_cast<elem2*>(out + c) =
              elem2((elem)(l[0] * cs.x - u[0] * sn.x), (elem)(l[1] * cs.y - u[1] * sn.y));
          *reinterpret_cast<elem2*>(out + D / 2 + c) =
              elem2((elem)(u[0] * cs.x + l[0] * sn.x), (elem)(u[1] * cs.y + l[1] * sn.y));
        }
      }
    }
    __syncwarp();  // wgmma wants whole warps again
  }
}

static bool tensor_map(CUtensorMap* t, const void* p, int rows, int cols, int box) {
  cuuint64_t dim[2] = {(cuuint64_t)cols, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)cols * 2};
  cuuint32_t b[2] = {BK, (cuuint32_t)box}, one[2] = {1, 1};
  return cuTensorMapEncodeTiled(t, kType, 2, const_cast<void*>(p), dim, stride, b, one, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <int D>
static cudaError_t launch(const elem* x, const elem* w, const int* pos, const float* table, elem* q, elem* k, elem* v,
                          int T, int H, int HKV, int E, cudaStream_t stream) {
  if constexpr (BN % D != 0) {
    return cudaErrorNotSupported;
  } else {
    CUtensorMap tx, tw;
    int N = (H + 2 * HKV) * D, device = 0, sms = 0;
    if (!tensor_map(&tx, x, T, E, BM) || !tensor_map(&tw, w, N, E, BN)) return cudaErrorInvalidValue;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    cudaError_t e = cudaFuncSetAttribute(qkv_kernel<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem));
    if (e != cudaSuccess) return e;
    int tiles = ((T + BM - 1) / BM) * ((N + BN - 1) / BN), blocks = sms * kPerSm;
    qkv_kernel<D><<<tiles < blocks ? tiles : blocks, kThreads, sizeof(Smem), stream>>>(tx, tw, pos, table, q, k, v, T,
                                                                                      H, HKV, E);
    return cudaGetLastError();
  }
}

extern "C" cudaError_t fused_qkv_rope(const elem* x, const elem* w, const int* pos, const float* table, elem* q,
                                      elem* k, elem* v, int T, int H, int HKV, int D, int E, void* workspace,
                                      size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (T < 1 || E % 8) return cudaErrorNotSupported;
  if (D == 64) return launch<64>(x, w, pos, table, q, k, v, T, H, HKV, E, stream);
  if (D == 96) return launch<96>(x, w, pos, table, q, k, v, T, H, HKV, E, stream);
  if (D == 128) return launch<128>(x, w, pos, table, q, k, v, T, H, HKV, E, stream);
  if (D == 256) return launch<256>(x, w, pos, table, q, k, v, T, H, HKV, E, stream);
  return cudaErrorNotSupported;
}
