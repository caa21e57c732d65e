// fp16 GEMM for sm_90a whose tiles are too few to fill the GPU: all K steps of all tiles are laid end to end and then
// divided evenly among the blocks (stream-K). Who begins a tile finishes it: others leave fp32 sums in the workspace
// and raise a flag. Rows of b are wgmma's rows, so that tiles fit an odd M; blocks of the same b walk K in step.
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

//! idea stream-K: even shares of all K steps per block
//! needs tma wgmma setmaxnreg
//! legal BM*BN<=45056
//! param 128 256
constexpr int BM = 128;       // rows of b in a tile: columns of c
//! param 64 128 152 176 256
constexpr int BN = 256;       // rows of a in a tile
//! param 3 4 5 6
constexpr int STAGES = 4;     // tiles in flight
//! param 1 4 16
constexpr int GRAIN = 4;      // K steps that are not divided
constexpr int BK = 64;        // a tile row is 128 bytes, the width of the swizzle
constexpr int CONSUMERS = 2, MT = BM / (64 * CONSUMERS);  // warpgroups; 64-row products in each
constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int TX = (BM + BN) * 128;  // bytes per stage
constexpr size_t PART = (size_t)BM * BN * 4;

struct Smem {
  alignas(1024) uint8_t b[STAGES][BM * 128];
  alignas(1024) uint8_t a[STAGES][BN * 128];
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
static __device__ __forceinline__ void group_sync(int wg) { asm volatile("bar.sync %0, 128;" ::"r"(wg) : "memory"); }
static __device__ __forceinline__ void raise(unsigned *flag) {
  asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
}
static __device__ __forceinline__ bool raised(const unsigned *flag) {
  unsigned v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
  return v != 0;
}

// Matrix descriptor: K-major rows of 128 bytes, 128-byte swizzle, groups of eight rows 1024 bytes apart.
static __device__ __forceinline__ uint64_t desc(const uint8_t *p) {
  constexpr uint64_t fixed = 1ull << 62 | 64ull << 32 | 1ull << 16;
  return fixed | (smem_u32(p) & 0x3ffff) >> 4;
}

#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define R64(i) R16(i), R16(i + 16), R16(i + 32), R16(i + 48)
#define L32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27," \
            "%28,%29,%30,%31"
#define L64 L32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55," \
                "%56,%57,%58,%59,%60,%61,%62,%63"
#define L76 L64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75"
#define L88 L76 ",%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87"
#define L128 L88 ",%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108," \
                 "%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define MMA(n, list, x, y, more) "{\n.reg .pred p;\nsetp.ne.b32 p, %" #more ", 0;\n" \
  "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" list "}, %" #x ", %" #y ", p, 1, 1, 0, 0;\n}"
// d = x * y + (more ? d : 0) for 64 rows, N columns and 32 bytes of K.
template <int N>
static __device__ __forceinline__ void wgmma(float (&d)[N / 2], uint64_t x, uint64_t y, int more) {
  if constexpr (N == 64)
    asm volatile(MMA(64, L32, 32, 33, 34) : R16(0), R16(16) : "l"(x), "l"(y), "r"(more));
  else if constexpr (N == 128)
    asm volatile(MMA(128, L64, 64, 65, 66) : R64(0) : "l"(x), "l"(y), "r"(more));
  else if constexpr (N == 152)
    asm volatile(MMA(152, L76, 76, 77, 78) : R64(0), R4(64), R4(68), R4(72) : "l"(x), "l"(y), "r"(more));
  else if constexpr (N == 176)
    asm volatile(MMA(176, L88, 88, 89, 90) : R64(0), R16(64), R4(80), R4(84) : "l"(x), "l"(y), "r"(more));
  else
    asm volatile(MMA(256, L128, 128, 129, 130) : R64(0), R64(64) : "l"(x), "l"(y), "r"(more));
}

// An 8 x 8 matrix of halves, a row's pair in each lane, becomes its transpose in the same form.
static __device__ __forceinline__ uint32_t flip(uint32_t x) {
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(x));
  return x;
}

// A quad's row of four matrices, a pair of each in a lane, becomes the eight of one matrix in each lane.
static __device__ __forceinline__ uint4 gather(uint4 v, int q) {
  //! fault quad_ends wrong: const bool odd = q & 1, high = (q & 2) == 0;
  const bool odd = q & 1, high = q & 2;
  uint32_t x = __shfl_xor_sync(~0u, odd ? v.x : v.y, 1), y = __shfl_xor_sync(~0u, odd ? v.z : v.w, 1);
  (odd ? v.x : v.y) = x, (odd ? v.z : v.w) = y;
  x = __shfl_xor_sync(~0u, high ? v.x : v.z, 2), y = __shfl_xor_sync(~0u, high ? v.y : v.w, 2);
  (high ? v.x : v.z) = x, (high ? v.y : v.w) = y;
  return v;
}

static __host__ __device__ int ceil_div(int a, int b) { return (a + b - 1) / b; }

//! kernel grid=cdiv(M,BN)*max(1,SMS/cdiv(M,BN)) block=384 smem=1024+STAGES*(BM+BN)*128 regs=168 read=2*K*(cdiv(N,BM)*M+cdiv(M,BN)*N)+4*BM*BN*min(SMS,cdiv(M,BN)*cdiv(N,BM)) once=2*K*(M+N) write=2*M*N+4*BM*BN*SMS inflight=(STAGES-1)*(BM+BN)*128 ops=M*N*K/200+BM*BN*SMS*2 tc16=2*K*cdiv(M,BN)*BM*cdiv(N,BM)*BN eff=min(84,39+BM*BN/512)*(14+STAGES)/19 chain=2*LAT+6000+K/64*LAT/(STAGES-1)*cdiv(M,BN)*cdiv(N,BM)/SMS
static __global__ void __launch_bounds__(THREADS, 1)
    gemm_kernel(const __grid_constant__ CUtensorMap ta, const __grid_constant__ CUtensorMap tb, __half *c,
                unsigned *flags, float4 *parts, int M, int N, int K) {
  extern __shared__ __align__(1024) uint8_t raw[];
  Smem &s = *(Smem *)raw;
  const int wg = threadIdx.x / 128, down = ceil_div(M, BN), units = gridDim.x / down, m0 = blockIdx.x % down * BN;
  // Later shares belong to earlier blocks: a block waits only for blocks that were started before it.
  const int unit = units - 1 - blockIdx.x / down;
  //! fault k_tail wrong when K%64!=0&&K>64: const int kt = K / BK, per = ceil_div(kt, GRAIN);
  const int kt = ceil_div(K, BK), per = ceil_div(kt, GRAIN);
  const int work = per * ceil_div(N, BM);
  //! fault begin_cast compile: const int begin = work * unit / units, end = work * unit.next / units;
  //! says begin_cast: expression must have class type but it has type "const int"
  const int begin = work * unit / units, end = work * (unit + 1) / units;
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
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x != 0) return;
    for (int g = begin, next; g < end; g = next) {  // from grain g of all to the end of its tile or of the share
      const int tile = g / per;
      next = min(end, (tile + 1) * per);
      for (int k = (g - tile * per) * GRAIN; k < min(kt, (next - tile * per) * GRAIN); ++k) {
        bar_wait(&s.empty[stage], phase ^ 1);
        bar_expect(&s.full[stage], TX);
        tma_load(s.a[stage], &ta, k * BK, m0, &s.full[stage]);
        //! fault stage_index compile: tma_load(s.b[stage], &tb, k * BK, tile * BM, s.full[stage]);
        //! says stage_index: argument of type "uint64_t" (aka "unsigned long") is incompatible with parameter of type "uint64_t *" (aka "unsigned long *")
        tma_load(s.b[stage], &tb, k * BK, tile * BM, &s.full[stage]);
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const int lane = threadIdx.x % 128, w0 = (wg - 1) * MT * 64;  // the warpgroup's first row in the tile
  const auto slot = [&](int u) { return (u * down + (int)blockIdx.x % down) * CONSUMERS + wg - 1; };
  float d[MT][BN / 2] = {};
  for (int g = begin, next; g < end; g = next) {
    const int tile = g / per, k0 = (g - tile * per) * GRAIN;
    next = min(end, (tile + 1) * per);
    int prev = -1;
    for (int k = k0; k < min(kt, (next - tile * per) * GRAIN); ++k) {
      bar_wait(&s.full[stage], phase);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int kk = 0; kk < 128; kk += 32)
#pragma unroll
        for (int t = 0; t < MT; ++t)
          //! fault not_cleared wrong when cdiv(N,BM)>max(1,SMS/cdiv(M,BN)): wgmma<BN>(d[t], desc(&s.b[stage][(w0 + t * 64) * 128 + kk]), desc(&s.a[stage][kk]), g - begin + k - k0 + kk);
          wgmma<BN>(d[t], desc(&s.b[stage][(w0 + t * 64) * 128 + kk]), desc(&s.a[stage][kk]), k - k0 + kk);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (prev >= 0 && lane == 0) bar_arrive(&s.empty[prev]);
      prev = stage;
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (lane == 0) bar_arrive(&s.empty[prev]);
    constexpr int QUADS = MT * BN / 8;
    if (k0 > 0) {  // another block began this tile
      float4 *p = parts + (size_t)slot(unit) * (QUADS * 128) + lane;
#pragma unroll
      for (int j = 0; j < QUADS; ++j) {
        const float *v = &d[j / (BN / 8)][j % (BN / 8) * 4];
        __stcg(p + j * 128, make_float4(v[0], v[1], v[2], v[3]));
      }
      group_sync(wg);
      if (lane == 0) raise(flags + slot(unit));
      continue;
    }
    // The units after this one hold the rest of the tile, if it has not been finished here.
    //! fault first_part wrong when SMS/cdiv(M,BN)>cdiv(N,BM)&&K>64*GRAIN: for (int u = unit + 1; u < 0; ++u) {
    for (int u = unit + 1; u < units && work * u / units < (tile + 1) * per; ++u) {
      if (work * u / units == work * (u + 1) / units) continue;  // an empty share
      if (lane == 0) {
        while (!raised(flags + slot(u))) {
        }
        flags[slot(u)] = 0;  // as the next launch wants it
      }
      group_sync(wg);
      const float4 *p = parts + (size_t)slot(u) * (QUADS * 128) + lane;
#pragma unroll
      for (int j = 0; j < QUADS; ++j) {
        const float4 w = __ldcg(p + j * 128);
        float *v = &d[j / (BN / 8)][j % (BN / 8) * 4];
        v[0] += w.x, v[1] += w.y, v[2] += w.z, v[3] += w.w;
      }
    }
    const int q = lane % 4;
#pragma unroll
    for (int t = 0; t < MT; ++t)
#pragma unroll
      for (int j = 0; j < BN / 8; j += 2) {  // eight rows of c, twice, by sixteen columns
        uint32_t h[4] = {};
#pragma unroll
        for (int i = 0; i < 4 && j + i / 2 < BN / 8; ++i) {
          const float *f = &d[t][j * 4 + i * 2];
          //! fault pack_pair compile: const __half2 x = __floats2half2_rn(f);
          //! says pack_pair: argument of type "const float *" is incompatible with parameter of type "float"
          //! fault pair_swap wrong: const __half2 x = __floats2half2_rn(f[1], f[0]);
          const __half2 x = __floats2half2_rn(f[0], f[1]);
          h[i] = flip(*(const uint32_t *)&x);
        }
        const uint4 out = gather(make_uint4(h[0], h[1], h[2], h[3]), q);
        const int r = (j + q / 2) * 8 + lane % 32 / 4, row = m0 + r;
        //! fault half_swap wrong: const int col = tile * BM + w0 + t * 64 + lane / 32 * 16 + (1 - q % 2) * 8;
        const int col = tile * BM + w0 + t * 64 + lane / 32 * 16 + q % 2 * 8;
        if (r < BN && row < M && col < N) *(uint4 *)&c[(size_t)row * N + col] = out;
      }
  }
}

static bool tensor_map(CUtensorMap *map, const void *p, int rows, int cols, int box_rows) {
  cuuint64_t dim[2] = {(cuuint64_t)cols, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)cols * 2};
  cuuint32_t box[2] = {BK, (cuuint32_t)box_rows}, step[2] = {1, 1};
  return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)p, dim, stride, box, step,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// Blocks of a launch: a multiple of the tiles along M, one per multiprocessor unless there are more of them.
static int blocks_for(int M) {
  int dev = 0, sms = 0, down = ceil_div(M, BN);
  if (cudaGetDevice(&dev) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev) != cudaSuccess) return 0;
  return down * (sms > down ? sms / down : 1);
}

static size_t flag_bytes(int blocks) { return ((size_t)blocks * CONSUMERS * 4 + 255) / 256 * 256; }

extern "C" size_t gemm_fp16_workspace(int M, int N, int K) {
  const int blocks = M > 0 && N > 0 && K > 0 ? blocks_for(M) : 0;
  return flag_bytes(blocks) + blocks * PART;
}

extern "C" cudaError_t gemm_fp16(const __half *a, const __half *b, __half *c, int M, int N, int K,
                                 void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (M < 1 || N < 8 || K < 8 || N % 8 || K % 8) return cudaErrorNotSupported;
  const int blocks = blocks_for(M);
  if (blocks == 0) return cudaErrorInvalidDevice;
  if ((int64_t)(ceil_div(K, BK) + GRAIN) * ceil_div(N, BM) * blocks > 0x7fffffff) return cudaErrorNotSupported;
  if (workspace_bytes < gemm_fp16_workspace(M, N, K)) return cudaErrorInvalidValue;
  CUtensorMap ta, tb;
  if (!tensor_map(&ta, a, M, K, BN) || !tensor_map(&tb, b, N, K, BM)) return cudaErrorInvalidValue;
  const cudaError_t e = cudaFuncSetAttribute(gemm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem));
  if (e != cudaSuccess) return e;
  unsigned *flags = (unsigned *)workspace;
  float4 *parts = (float4 *)((char *)workspace + flag_bytes(blocks));
  gemm_kernel<<<blocks, THREADS, sizeof(Smem), stream>>>(ta, tb, c, flags, parts, M, N, K);
  return cudaGetLastError();
}
