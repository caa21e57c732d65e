// Samples one token per row from the K largest logits. A cluster of CTAS blocks holds the whole row in its shared
// memory, so that DRAM is read once; the radix select then runs on chip, the blocks adding up their histograms
// through distributed shared memory. The kept logits meet in the first block, which sorts them by index and draws.
//! idea a cluster of blocks holds the row in distributed shared memory
//! says sync_name: class "cooperative_groups::__v1::cluster_group" has no member "synchronize"
//! says rank_count: no instance of function template "cooperative_groups::__v1::cluster_group::map_shared_rank" matches the argument list
//! says attr_dim: no suitable conversion function from "dim3" to "unsigned int" exists
//! needs cluster
//! kernel grid=B*CTAS block=THREADS smem=16*cdiv(V,4*CTAS)+16+(BITS==8?10288:24848) regs=(BITS==8?32:40) read=4*B*V+4*B once=4*B*V+4*B write=4*B inflight=THREADS*16*UNROLL ops=B*V*(cdiv(32,BITS)+2)*12 sfu=2*B*K chain=LAT+cdiv(V,CTAS*THREADS*4*UNROLL)*(LAT+10)+(cdiv(32,BITS)+1)*(cdiv(V,CTAS*THREADS)*40+2000)+4000
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <cstdint>

namespace cg = cooperative_groups;

//! param 128 256 512 1024
constexpr int THREADS = 512;
//! param 2 4 8
constexpr int CTAS = 4;  // blocks per cluster, each with 1 / CTAS of the row
//! param 8 11
constexpr int BITS = 8;  // width of a digit
//! param 1 2 4
constexpr int UNROLL = 4;  // 16-byte loads in flight per thread
//! legal 16*cdiv(V,4*CTAS)+16+(BITS==8?10288:24848)<=(arch==90?232448:101376)
constexpr int WARPS = THREADS / 32;
constexpr int BINS = 1 << BITS;
constexpr int MAX_K = 1024;
constexpr unsigned ALL = 0xffffffffu;

// At the start of the dynamic shared memory; the slice of the row follows.
struct Shared {
  uint64_t list[MAX_K];
  unsigned hist[2][BINS];
  unsigned chunk[BINS / 32];
  int digit, left, inside, kept;
};

// The order of the floats in the high word, lower indices first in the low word. Adding zero turns -0 into +0.
static __device__ __forceinline__ uint64_t pack(float x, int i) {
  unsigned u = __float_as_uint(x + 0.f);
  u = u >> 31 ? ~u : u | 0x80000000u;
  return (uint64_t)u << 32 | (unsigned)~i;
}

// Ascending bitonic sort of n values, n a power of two.
static __device__ void sort_list(uint64_t *a, int n) {
  for (int k = 2; k <= n; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      for (int i = threadIdx.x; i < n / 2; i += THREADS) {
        int lo = 2 * i - (i & (j - 1)), hi = lo + j;
//! fault downward wrong when K>=10: bool up = (lo & k) != 0;
        bool up = (lo & k) == 0;
        uint64_t x = a[lo], y = a[hi];
        if ((x > y) == up) {
          a[lo] = y;
          a[hi] = x;
        }
      }
      __syncthreads();
    }
}

// One warp walks the kept logits in index order. Entries hold the index in the high word, the logit in the low one.
static __device__ void draw(const uint64_t *list, int K, float r, int *token) {
  int lane = threadIdx.x % 32, per = (K + 31) / 32, lo = min(K, lane * per), hi = min(K, lo + per);
  float peak = __uint_as_float(0xff800000u), s = 0.f;
  for (int i = lo; i < hi; ++i) peak = fmaxf(peak, __uint_as_float((unsigned)list[i]));
  for (int d = 16; d > 0; d /= 2) peak = fmaxf(peak, __shfl_xor_sync(ALL, peak, d));
  for (int i = lo; i < hi; ++i) s += __expf(__uint_as_float((unsigned)list[i]) - peak);
  float run = s;
  for (int d = 1; d < 32; d *= 2) {
    float o = __shfl_up_sync(ALL, run, d);
    if (lane >= d) run += o;
  }
//! fault unscaled wrong when K>=10: float target = r, c = __shfl_up_sync(ALL, run, 1);
  float target = r * __shfl_sync(ALL, run, 31), c = __shfl_up_sync(ALL, run, 1);
  if (lane == 0) c = 0.f;
  int found = -1, last = -1;
  for (int i = lo; i < hi; ++i) {
    float p = __expf(__uint_as_float((unsigned)list[i]) - peak);
    if (p <= 0.f) continue;
    last = (int)(list[i] >> 32);
    c += p;
    if (found < 0 && c > target) found = last;
  }
  unsigned hits = __ballot_sync(ALL, found >= 0), any = __ballot_sync(ALL, last >= 0);
  // Rounding can leave the total a little below the target: then it is the last one that counts.
  found = hits ? __shfl_sync(ALL, found, __ffs(hits) - 1) : __shfl_sync(ALL, last, 31 - __clz(any));
  if (lane == 0) *token = found;
}

static __global__ void __launch_bounds__(THREADS) sample_kernel(const float *logits, const float *rnd, int *token,
                                                                int V, int K, int len) {
  extern __shared__ __align__(16) unsigned char raw[];
  Shared &s = *(Shared *)raw;
  cg::cluster_group cluster = cg::this_cluster();
  int rank = (int)cluster.block_rank(), b = blockIdx.x / CTAS, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
//! fault short_slice wrong when (CTAS-1)*4*cdiv(V,4*CTAS)<V&&K<V: int begin = min(V, rank * len), n = min(len, V - begin) - (rank == CTAS - 1);
  int begin = min(V, rank * len), n = min(len, V - begin);
  const float *row = logits + (size_t)b * V + begin;
  // `len` is a multiple of 4 floats: with the row's own misalignment kept, 16-byte pieces match on both sides.
  int skew = (int)(((uintptr_t)row & 15) / 4), pieces = (skew + n + 3) / 4;
  float *slice = (float *)(raw + (sizeof(Shared) + 15) / 16 * 16) + skew;
  const float4 *from = (const float4 *)(row - skew);
  float4 *to = (float4 *)(slice - skew);
  for (int i = threadIdx.x; i < pieces; i += UNROLL * THREADS) {
    float4 v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      int j = i + u * THREADS;
      if (j > 0 && j < pieces - 1) v[u] = from[j];
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      int j = i + u * THREADS;
      if (j > 0 && j < pieces - 1) to[j] = v[u];
    }
  }
  // The first and the last piece may reach into what is not ours.
  if (threadIdx.x < 8) {
    int i = threadIdx.x < 4 ? (int)threadIdx.x - skew : (pieces - 1) * 4 - skew + (int)threadIdx.x - 4;
    if (i >= 0 && i < n) slice[i] = row[i];
  }
  if (threadIdx.x == 0) s.kept = 0;

  uint64_t prefix = 0;
  int need = K, hi = 64;
  for (int pass = 0; hi > 0; ++pass) {
    int lo = max(hi > 32 ? 32 : 0, hi - BITS);
    // Two histograms in turn: the other blocks may still read the one of the last pass.
    unsigned *hist = s.hist[pass % 2], mask = (1u << (hi - lo)) - 1;
    for (int i = threadIdx.x; i < BINS; i += THREADS) hist[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += THREADS) {
      uint64_t k = pack(slice[i], begin + i);
      if (hi == 64 || (k >> hi) == prefix) atomicAdd(&hist[(unsigned)(k >> lo) & mask], 1u);
    }
//! fault sync_name compile: cluster.synchronize();
    cluster.sync();
    int per[(BINS / 32 + WARPS - 1) / WARPS];
    for (int c = warp, q = 0; c < BINS / 32; c += WARPS, ++q) {
      unsigned sum = 0;
//! fault rank_count compile: for (int r = 0; r < CTAS; ++r) sum += cluster.map_shared_rank(hist)[c * 32 + lane];
      for (int r = 0; r < CTAS; ++r) sum += cluster.map_shared_rank(hist, r)[c * 32 + lane];
      per[q] = (int)sum;
      sum = __reduce_add_sync(ALL, sum);
      if (lane == 0) s.chunk[c] = sum;
    }
    __syncthreads();
    // Every warp walks the chunks from the top; the one that summed the chunk in question finds the bin.
    int c = BINS / 32 - 1, left = need;
    while (c > 0 && (int)s.chunk[c] < left) left -= s.chunk[c--];
    if (c % WARPS == warp) {
      int count = 0;
      for (int q = 0; q * WARPS + warp < BINS / 32; ++q)
        if (q == c / WARPS) count = per[q];
      count = __shfl_sync(ALL, count, 31 - lane);
      int sum = count;
      for (int d = 1; d < 32; d *= 2) {
        int o = __shfl_up_sync(ALL, sum, d);
        if (lane >= d) sum += o;
      }
      if (lane == __ffs(__ballot_sync(ALL, sum >= left)) - 1) {
        s.digit = c * 32 + 31 - lane;
        s.left = left - (sum - count);
        s.inside = count;
      }
    }
    __syncthreads();
    prefix = prefix << (hi - lo) | (unsigned)s.digit;
    need = s.left;
    hi = lo;
    if (s.inside == need) break;  // the whole bucket is kept
  }
  uint64_t least = prefix << hi;

  Shared *first = cluster.map_shared_rank(&s, 0);
  for (int i = threadIdx.x; i < n; i += THREADS) {
    float x = slice[i];
    if (pack(x, begin + i) < least) continue;
    int at = atomicAdd(&first->kept, 1);
//! fault local_index wrong when V>=1000: if (at < K) first->list[at] = (uint64_t)(unsigned)i << 32 | __float_as_uint(x);
    if (at < K) first->list[at] = (uint64_t)(unsigned)(begin + i) << 32 | __float_as_uint(x);
  }
  cluster.sync();
  if (rank > 0) return;
  int slots = 2;
  while (slots < K) slots *= 2;
  for (int i = K + threadIdx.x; i < slots; i += THREADS) s.list[i] = ~0ull;
  __syncthreads();
  sort_list(s.list, slots);
//! fault cluster_rnd wrong when B>=2 && K>=2: if (warp == 0) draw(s.list, K, rnd[b / 2], token + b);
  if (warp == 0) draw(s.list, K, rnd[b], token + b);
}

extern "C" cudaError_t topk_sample(const float *logits, const float *rnd, int *token, int B, int V, int K,
                                   void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (B < 1 || V < 1 || K < 1 || K > V || K > MAX_K) return cudaErrorNotSupported;
  int len = (V + 4 * CTAS - 1) / (4 * CTAS) * 4, dev = 0, most = 0;
  size_t smem = (sizeof(Shared) + 15) / 16 * 16 + (len + 4) * sizeof(float);
  cudaGetDevice(&dev);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, dev);
  if (smem > (size_t)most) return cudaErrorNotSupported;
  cudaError_t e = cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
  if (e != cudaSuccess) return e;
  cudaLaunchAttribute attr[1];
  attr[0].id = cudaLaunchAttributeClusterDimension;
//! fault attr_dim compile: attr[0].val.clusterDim.x = dim3(CTAS, 1, 1);
  attr[0].val.clusterDim.x = CTAS;
  attr[0].val.clusterDim.y = 1;
  attr[0].val.clusterDim.z = 1;
  cudaLaunchConfig_t cfg = {};
  cfg.gridDim = dim3((unsigned)B * CTAS);
  cfg.blockDim = dim3(THREADS);
  cfg.dynamicSmemBytes = smem;
  cfg.stream = stream;
  cfg.attrs = attr;
  cfg.numAttrs = 1;
  e = cudaLaunchKernelEx(&cfg, sample_kernel, logits, rnd, token, V, K, len);
  if (e != cudaSuccess) return e;
  return cudaGetLastError();
}
