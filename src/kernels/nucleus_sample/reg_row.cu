// Samples one token per row from the shortest sorted prefix of the vocabulary that holds a mass of top_p. Persistent
// clusters of CTAS blocks hold a row in their registers while the copy engine brings the next one to shared memory, so
// that DRAM is read once and never waits for the search. The threshold is found by its distance below the maximum:
// 2048 bins of 1/64, then 2048 parts of the bin in question, each with the probability mass in fixed point.
//! idea a cluster holds a row in registers while the next one arrives in shared memory
//! needs cluster tma
//! kernel grid=CTAS*min(B,max(1,SMS*BLOCKS/CTAS)) block=THREADS smem=cdiv(16400+512*CTAS+THREADS/32*12*CTAS+4*PER,128)*128+4*THREADS*PER regs=min(min(2*PER+50,255),65536/(THREADS*BLOCKS)) read=4*B*V+8*B*CTAS once=4*B*V+8*B write=4*B inflight=4*cdiv(V,CTAS) ops=B*CTAS*THREADS*PER*31 sfu=B*CTAS*THREADS*PER*4 chain=PER*THREADS/4+8000 tiles=B*CTAS
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <cfloat>
#include <cstdint>

namespace cg = cooperative_groups;

//! param 256 512 1024
constexpr int THREADS = 256;
//! param 2 4 8
constexpr int CTAS = 8;  // blocks per cluster, each with 1 / CTAS of the row
//! param 12 20 36 44 68 76
constexpr int PER = 76;  // logits per thread; an odd number of 16-byte words, so that no two lanes meet in a bank
//! param 1 2 4
constexpr int BLOCKS = 2;  // blocks per multiprocessor: while one waits at a barrier another can work
//! legal THREADS*BLOCKS<=1024
//! legal V%4==0
//! legal 4*cdiv(V,4*CTAS)<=THREADS*PER
//! legal 16528+512*CTAS+THREADS/32*12*CTAS+4*PER+4*THREADS*PER<=(arch==90?232448:101376)
constexpr int WARPS = THREADS / 32, BINS = 2048, CHUNKS = BINS / 32, PIECE = 4096;
constexpr float BIN = 1.f / 64, PART = BIN / BINS;
constexpr float FULL = 4.29e9f;  // units of the whole mass: rounding cannot carry a sum over 2^32
constexpr unsigned ALL = 0xffffffffu;

// At the start of the dynamic shared memory; the slice of the row follows.
struct alignas(128) Shared {
  unsigned hist[2][BINS];
  unsigned chunk[2][CTAS * CHUNKS];  // sums of 32 bins, from every block
  float2 stat[CTAS * WARPS];         // maximum and sum of every warp
  float kept[CTAS * WARPS];
  alignas(16) float picked[PER];
  uint64_t full;
  int row[2];
};

struct Crossing {
  int digit;
  unsigned left, inside;
};

// e^-d; 0 for Inf. Volatile, lest products be carried over from one pass to the next in registers that are not there.
static __device__ __forceinline__ float ex(float d) {
  float y;
  asm volatile("{\n.reg .f32 t;\nmul.f32 t, %1, 0fBFB8AA3B;\nex2.approx.ftz.f32 %0, t;\n}" : "=f"(y) : "f"(d));
  return y;
}

static __device__ __forceinline__ unsigned smem_addr(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// Shared-memory addition under a predicate. A branch instead would keep the logits' exponentials from overlapping.
static __device__ __forceinline__ void add_below(float limit, float d, unsigned address, unsigned mass) {
  asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, %1;\n@p red.shared.add.u32 [%2], %3;\n}" ::"f"(d), "f"(limit),
               "r"(address), "r"(mass) : "memory");
}

static __device__ void init_barrier(uint64_t *bar) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(smem_addr(bar)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ void wait_barrier(uint64_t *bar, int parity) {
  asm volatile(
      "{\n.reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n"
      "@!p bra again;\n}" ::"r"(smem_addr(bar)), "r"(parity) : "memory");
}

static __device__ void fetch(uint64_t *bar, float *to, const float *from, int n) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(smem_addr(bar)), "r"(4 * n) : "memory");
  for (int i = 0; i < n; i += PIECE)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     smem_addr(to + i)), "l"(from + i), "r"(4 * min(PIECE, n - i)), "r"(smem_addr(bar)) : "memory");
}

// Rows are handed out one by one, as not all clusters need be resident. Each cluster asks until it is told that none
// is left; the last to hear so makes the counter ready for the next launch.
static __device__ int row_of(unsigned ticket, unsigned *counter, int B) {
  if (ticket == B + gridDim.x / CTAS - 1) *counter = 0;
  return min((int)ticket, B);
}

template <class T>
static __device__ __forceinline__ T scan(T v) {
  for (int d = 1; d < 32; d *= 2) {
    T o = __shfl_up_sync(ALL, v, d);
    if ((int)threadIdx.x % 32 >= d) v += o;
  }
  return v;
}

// Ascending from the largest logit, lower indices first. Adding zero turns -0 into +0.
static __device__ __forceinline__ uint64_t order(float x, int i) {
  unsigned u = __float_as_uint(x + 0.f);
  return (uint64_t)(u >> 31 ? u : ~(u | 0x80000000u)) << 32 | (unsigned)i;
}

// The bin in which the mass of the cluster's histograms, from bin 0 on, reaches `need`. Every warp finds it for itself.
static __device__ Crossing find_bin(cg::cluster_group &cluster, Shared &s, int side, unsigned need) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rank = (int)cluster.block_rank();
  __syncthreads();
  for (int c = warp; c < CHUNKS; c += WARPS) {
    unsigned m = __reduce_add_sync(ALL, s.hist[side][c * 32 + lane]);
//! fault share_address compile: if (lane < CTAS) cluster.map_shared_rank(s.chunk[side], lane) = m;
//! says share_address: expression must be a modifiable lvalue
    if (lane < CTAS) cluster.map_shared_rank(s.chunk[side], lane)[rank * CHUNKS + c] = m;
  }
  cluster.sync();
  // All have read the other histogram, that of the pass before.
  for (int i = threadIdx.x; i < BINS; i += THREADS) s.hist[side ^ 1][i] = 0;
  unsigned even = 0, odd = 0, own = 0;
  for (int r = 0; r < CTAS; ++r) {
    even += s.chunk[side][r * CHUNKS + 2 * lane];
    odd += s.chunk[side][r * CHUNKS + 2 * lane + 1];
  }
  unsigned run = scan(even + odd);
  need = min(need, __shfl_sync(ALL, run, 31));
  int at = __ffs(__ballot_sync(ALL, run >= need)) - 1;
  unsigned left = need - __shfl_sync(ALL, run - even - odd, at), first = __shfl_sync(ALL, even, at);
  int c = 2 * at + (first < left);
  if (first < left) left -= first;
  for (int r = 0; r < CTAS; ++r) own += cluster.map_shared_rank(s.hist[side], r)[c * 32 + lane];
  run = scan(own);
  at = __ffs(__ballot_sync(ALL, run >= left)) - 1;
  __syncthreads();
  return {c * 32 + at, left - __shfl_sync(ALL, run - own, at), __shfl_sync(ALL, own, at)};
}

static __global__ void __launch_bounds__(THREADS, BLOCKS) sample_kernel(const float *logits, const float *rnd,
                                                                        const float *top_p, int *token,
                                                                        unsigned *counter, int B, int V, int len) {
  extern __shared__ __align__(128) unsigned char raw[];
  Shared &s = *(Shared *)raw;
  float *slice = (float *)(raw + sizeof(Shared)), x[PER];
  cg::cluster_group cluster = cg::this_cluster();
  int rank = (int)cluster.block_rank(), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int begin = min(V, rank * len), n = min(len, V - begin), mine = begin + (int)threadIdx.x * PER;
  for (int i = threadIdx.x; i < 2 * BINS; i += THREADS) s.hist[0][i] = 0;
  for (int i = n + threadIdx.x; i < THREADS * PER; i += THREADS) slice[i] = __uint_as_float(0xff800000u);
  if (threadIdx.x == 0) init_barrier(&s.full);
  cluster.sync();
  if (rank == 0 && threadIdx.x == 0) {
    int now = row_of(atomicAdd(counter, 1u), counter, B);
    int next = now < B ? row_of(atomicAdd(counter, 1u), counter, B) : B;
    for (int r = 0; r < CTAS; ++r) {
      cluster.map_shared_rank(s.row, r)[0] = now;
      cluster.map_shared_rank(s.row, r)[1] = next;
    }
  }
  cluster.sync();
  int b = s.row[0], next = s.row[1], side = 0, parity = 0;
  __syncthreads();
  if (b < B && threadIdx.x == 0) fetch(&s.full, slice, logits + (size_t)b * V + begin, n);
  while (b < B) {
    unsigned ticket = 0;
//! fault first_rnd wrong when B>=2: float p = top_p[b], draw = rnd[0];
    float p = top_p[b], draw = rnd[b];
    wait_barrier(&s.full, parity);
    parity ^= 1;
#pragma unroll
    for (int k = 0; k < PER; k += 4) {
      float4 v = *(const float4 *)(slice + threadIdx.x * PER + k);
      x[k] = v.x, x[k + 1] = v.y, x[k + 2] = v.z, x[k + 3] = v.w;
    }
    __syncthreads();  // the slice is in registers: its place is free
    if (threadIdx.x == 0) {
      if (next < B) fetch(&s.full, slice, logits + (size_t)next * V + begin, n);
      if (next < B && rank == 0) ticket = atomicAdd(counter, 1u);  // its answer has time until the end of this row
    }

    // Maximum and sum of each warp, shared with the whole cluster. -FLT_MAX keeps Inf - Inf out.
    float peak = -FLT_MAX, sum = 0.f;
#pragma unroll
    for (int k = 0; k < PER; ++k) peak = fmaxf(peak, x[k]);
    for (int d = 16; d > 0; d /= 2) peak = fmaxf(peak, __shfl_xor_sync(ALL, peak, d));
#pragma unroll
    for (int k = 0; k < PER; ++k) sum += ex(peak - x[k]);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(ALL, sum, d);
//! fault stat_type compile: if (lane < CTAS) cluster.map_shared_rank(s.stat, lane)[rank * WARPS + warp] = sum;
//! says stat_type: no operator "=" matches these operands
    if (lane < CTAS) cluster.map_shared_rank(s.stat, lane)[rank * WARPS + warp] = make_float2(peak, sum);
    cluster.sync();
    peak = -FLT_MAX;
    sum = 0.f;
    for (int i = lane; i < CTAS * WARPS; i += 32) peak = fmaxf(peak, s.stat[i].x);
    for (int d = 16; d > 0; d /= 2) peak = fmaxf(peak, __shfl_xor_sync(ALL, peak, d));
    for (int i = lane; i < CTAS * WARPS; i += 32) sum += s.stat[i].y * ex(peak - s.stat[i].x);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(ALL, sum, d);
    float scale = FULL / sum;
    auto fixed = [&](float d) { return __float2uint_rn(ex(d) * scale); };

    // Logits further down than `limit` have less than 1 - p of the mass together: the threshold lies above them all.
    unsigned bins = smem_addr(s.hist[side]) - 4 * __float_as_uint(8388608.f);
    float limit = fminf(BINS * BIN, __logf(V / (0.9f * (1.f - p) * sum)));
#pragma unroll
    for (int k = 0; k < PER; ++k) {
      float d = x[k] = peak - x[k];  // from here on only the distances matter
      // Adding 2^23 leaves the integer part in the low bits.
      add_below(limit, d, bins + 4 * __float_as_uint(__fmaf_rd(d, 1.f / BIN, 8388608.f)), fixed(d));
    }
//! fault full_p wrong when V>=1000: Crossing at = find_bin(cluster, s, side, (unsigned)FULL);
//! fault need_name compile: Crossing at = find_bin(cluster, s, side, max(1u, __float2uint_up(p * FULL)));
//! says need_name: identifier "__float2uint_up" is undefined
    Crossing at = find_bin(cluster, s, side, max(1u, __float2uint_ru(p * FULL)));
    side ^= 1;
    float start = at.digit * BIN, end = fminf(start + BIN, limit);
    int base = __float_as_int(8388608.f) + at.digit * BINS;
#pragma unroll
    for (int k = 0; k < PER; ++k) {
      float d = x[k];
      if (d >= start && d < end)
        atomicAdd(&s.hist[side][__float_as_int(__fmaf_rd(d, 1.f / PART, 8388608.f)) - base], fixed(d));
    }
    at = find_bin(cluster, s, side, at.left);
    side ^= 1;
    start += at.digit * PART;
    end = fminf(start + PART, end);

    // Equal or nearly equal logits of which not all are needed: decide by all bits of the logit, then by the index.
    const float *row = logits + (size_t)b * V;
    uint64_t prefix = 0;
    int hi = 64;
    bool split = at.inside - at.left >= ex(end) * scale * 0.9999f && at.inside > at.left;
    while (split && hi > 0 && at.inside > at.left) {
      int lo = max(hi > 32 ? 32 : 0, hi - 11);
      for (int i = mine; i < min(mine + PER, begin + n); ++i) {
        float d = peak - row[i];
        uint64_t q = order(row[i], i);
        if (d >= start && d < end && (hi == 64 || q >> hi == prefix))
          atomicAdd(&s.hist[side][(unsigned)(q >> lo) & ((1u << (hi - lo)) - 1)], fixed(d));
      }
      at = find_bin(cluster, s, side, at.left);
      side ^= 1;
      prefix = prefix << (hi - lo) | (unsigned)at.digit;
      hi = lo;
    }
    auto in_part = [&](float d, int i) { return d >= start && d < end && order(row[i], i) >> hi <= prefix; };
//! fault crossing_out wrong when V>=1000: float cut = start;
    float cut = split ? start : end;
    float own = 0.f;
#pragma unroll
    for (int k = 0; k < PER; ++k) {
      float w = ex(x[k]);
      own += x[k] < cut ? w : 0.f;
    }
    for (int i = mine; split && i < min(mine + PER, begin + n); ++i)
      if (in_part(peak - row[i], i)) own += ex(peak - row[i]);

    // Threads own consecutive logits, so the order of threads and blocks is that of the running sum.
    float run = scan(own), warp_sum = __shfl_sync(ALL, run, 31);
    if (lane < CTAS) cluster.map_shared_rank(s.kept, lane)[rank * WARPS + warp] = warp_sum;
    if (rank == 0 && threadIdx.x == 0) {
      int later = next < B ? row_of(ticket, counter, B) : B;
      for (int r = 0; r < CTAS; ++r) *cluster.map_shared_rank(s.row, r) = later;
    }
    cluster.sync();
    float before = 0.f, total = 0.f;
    for (int g = 0; g < CTAS * WARPS; ++g) {
      if (g == rank * WARPS + warp) before = total;
      total += s.kept[g];
    }
//! fault unscaled wrong when V>=1000: float target = draw;
    float target = fminf(draw * total, total * 0.9999999f);
    if (before <= target && before + warp_sum > target) {
      float rest = target - before;
      unsigned over = __ballot_sync(ALL, run > rest && own > 0.f), any = __ballot_sync(ALL, own > 0.f);
      int owner = over ? __ffs(over) - 1 : 31 - __clz(any), from = begin + (warp * 32 + owner) * PER;
      if (lane == owner) {
#pragma unroll
        for (int k = 0; k < PER; ++k) s.picked[k] = x[k];
      }
      __syncwarp();
      // The warp shares out the owner's logits and looks for the crossing among them.
      float c = __shfl_sync(ALL, run - own, owner);
      int found = from;
      for (int k = 0; k < PER && c <= rest; k += 32) {
        int e = k + lane;
        float d = e < PER ? s.picked[e] : FLT_MAX;
        float w = d < cut || (split && e < PER && from + e < begin + n && in_part(d, from + e)) ? ex(d) : 0.f;
        float part = c + scan(w);
        unsigned past = __ballot_sync(ALL, w > 0.f && part > rest), some = __ballot_sync(ALL, w > 0.f);
        if (some) found = from + k + (past ? __ffs(past) - 1 : 31 - __clz(some));
        c = past ? FLT_MAX : __shfl_sync(ALL, part, 31);
      }
//! fault local_index wrong when V>=1000: if (lane == 0) token[b] = found - begin;
      if (lane == 0) token[b] = found;
    }
    b = next;
    next = s.row[0];
  }
}

extern "C" size_t nucleus_sample_workspace(int, int) { return sizeof(unsigned); }

extern "C" cudaError_t nucleus_sample(const float *logits, const float *rnd, const float *top_p, int *token, int B,
                                      int V, void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  int len = (V + 4 * CTAS - 1) / (4 * CTAS) * 4, dev = 0, most = 0, sms = 0;
  if (B < 1 || V < 4 || V % 4 || len > THREADS * PER) return cudaErrorNotSupported;
  size_t smem = sizeof(Shared) + THREADS * PER * sizeof(float);
  cudaGetDevice(&dev);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, dev);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev);
  if (smem > (size_t)most) return cudaErrorNotSupported;
  if (workspace_bytes < sizeof(unsigned)) return cudaErrorInvalidValue;
  cudaError_t e = cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
  if (e != cudaSuccess) return e;
  cudaLaunchAttribute attr[1];
  attr[0].id = cudaLaunchAttributeClusterDimension;
  attr[0].val.clusterDim = {CTAS, 1, 1};
  cudaLaunchConfig_t cfg = {};
  cfg.gridDim = dim3((unsigned)(min(B, max(1, sms * BLOCKS / CTAS)) * CTAS));
  cfg.blockDim = dim3(THREADS);
  cfg.dynamicSmemBytes = smem;
  cfg.stream = stream;
  cfg.attrs = attr;
  cfg.numAttrs = 1;
  e = cudaLaunchKernelEx(&cfg, sample_kernel, logits, rnd, top_p, token, (unsigned *)workspace, B, V, len);
  return e != cudaSuccess ? e : cudaGetLastError();
}
