// Samples one token per row from the shortest sorted prefix of the vocabulary that holds a mass of top_p. A cluster of
// CTAS blocks holds the whole row in its shared memory, so that DRAM is read once; maximum, sum, the histograms of
// probability mass for each digit of the threshold and the final search all run on chip.
//! idea a cluster of blocks holds the row in distributed shared memory
//! says edge_braces+1: expected a ";"
//! says rank_deref: expression must have arithmetic or unscoped enum type
//! says lane_type: no instance of overloaded function "__shfl_sync" matches the argument list
//! needs cluster
//! kernel grid=B*CTAS block=THREADS smem=16*cdiv(V,4*CTAS)+16+(BITS==8?2240:16800) regs=(BITS==8?40:56) read=4*B*V+8*B*CTAS once=4*B*V+8*B write=4*B inflight=THREADS*16*UNROLL ops=B*V*(cdiv(32,BITS)*13+30) sfu=B*V*(cdiv(32,BITS)+3) chain=LAT+cdiv(V,CTAS*THREADS*4*UNROLL)*(LAT+10)+(cdiv(32,BITS)+3)*(cdiv(V,CTAS*THREADS)*45+2000)+2000
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
//! legal 16*cdiv(V,4*CTAS)+16+(BITS==8?2240:16800)<=(arch==90?232448:101376)
constexpr int WARPS = THREADS / 32;
constexpr int BINS = 1 << BITS;
constexpr unsigned ALL = 0xffffffffu;

// At the start of the dynamic shared memory; the slice of the row follows.
struct Shared {
  unsigned hist[2][BINS];
  unsigned chunk[BINS / 32];
  unsigned digit, left, inside;
  int first, last;
  float red[32];
  float peak, sum, kept;  // this block's, read by the others
};

// The order of the floats in the high word, lower indices first in the low word. Adding zero turns -0 into +0.
static __device__ __forceinline__ uint64_t pack(float x, int i) {
  unsigned u = __float_as_uint(x + 0.f);
  u = u >> 31 ? ~u : u | 0x80000000u;
  return (uint64_t)u << 32 | (unsigned)~i;
}

static __device__ float block_max(float v, float *red) {
  for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(ALL, v, d));
  if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = v;
  __syncthreads();
  v = red[0];
  for (int w = 1; w < WARPS; ++w) v = fmaxf(v, red[w]);
  __syncthreads();
  return v;
}

static __device__ float block_sum(float v, float *red) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(ALL, v, d);
  if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0.f;
  for (int w = 0; w < WARPS; ++w) v += red[w];
  __syncthreads();
  return v;
}

// Least index at which the running sum of the weights, in ascending index order, passes `target`.
// Every level cuts the range into one segment per warp and goes on in the segment that holds the crossing.
template <class Weight>
static __device__ int find_crossing(int V, float target, Weight weight, Shared &s) {
  float *red = s.red;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, lo = 0, hi = V;
  float before = 0.f;
  while (hi - lo > THREADS) {
    int step = (hi - lo + WARPS - 1) / WARPS, end = min(hi, lo + (warp + 1) * step);
    float m = 0.f;
    for (int i = lo + warp * step + lane; i < end; i += 32) m += weight(i);
    for (int d = 16; d > 0; d /= 2) m += __shfl_xor_sync(ALL, m, d);
    if (lane == 0) red[warp] = m;
    __syncthreads();
    int at = 0;
    float c = before, start = before;
    for (int w = 0; w < WARPS; ++w) {
      if (red[w] <= 0.f) continue;
      at = w;
      start = c;
      c += red[w];
      if (c > target) break;
    }
    __syncthreads();
    before = start;
    lo += at * step;
    hi = min(hi, lo + step);
  }
  int i = lo + threadIdx.x;
  float w = i < hi ? weight(i) : 0.f, c = w;
  for (int d = 1; d < 32; d *= 2) {
    float o = __shfl_up_sync(ALL, c, d);
    if (lane >= d) c += o;
  }
  if (lane == 31) red[warp] = c;
  if (threadIdx.x == 0) {
    s.first = V;
    s.last = 0;
  }
  __syncthreads();
  for (int v = 0; v < warp; ++v) c += red[v];
  if (w > 0.f) atomicMax(&s.last, i);
  if (w > 0.f && before + c > target) atomicMin(&s.first, i);
  __syncthreads();
  // Rounding can leave the total a little below the target: then it is the last weight that counts.
  int found = s.first < V ? s.first : s.last;
  __syncthreads();
  return found;
}

static __global__ void __launch_bounds__(THREADS) sample_kernel(const float *logits, const float *rnd,
                                                                const float *top_p, int *token, int V, int len) {
  extern __shared__ __align__(16) unsigned char raw[];
  Shared &s = *(Shared *)raw;
  cg::cluster_group cluster = cg::this_cluster();
  int rank = (int)cluster.block_rank(), b = blockIdx.x / CTAS, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
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
//! fault edge_braces compile: if (i >= 0 && i < n) slice[i] = row[i]
    if (i >= 0 && i < n) slice[i] = row[i];
  }
  __syncthreads();

  float peak = __uint_as_float(0xff800000u), sum = 0.f;
  for (int i = threadIdx.x; i < n; i += THREADS) peak = fmaxf(peak, slice[i]);
  peak = block_max(peak, s.red);
  if (threadIdx.x == 0) s.peak = peak;
  cluster.sync();
//! fault own_peak wrong when V>=1000: peak = 0.f;
  for (int r = 0; r < CTAS; ++r) peak = fmaxf(peak, *cluster.map_shared_rank(&s.peak, r));
  for (int i = threadIdx.x; i < n; i += THREADS) sum += __expf(slice[i] - peak);
  sum = block_sum(sum, s.red);
  if (threadIdx.x == 0) s.sum = sum;
  cluster.sync();
  sum = 0.f;
//! fault rank_deref compile: for (int r = 0; r < CTAS; ++r) sum += cluster.map_shared_rank(&s.sum, r);
  for (int r = 0; r < CTAS; ++r) sum += *cluster.map_shared_rank(&s.sum, r);
  // Units of 2^-31 of the total mass: integers, so that the order of the additions does not matter.
//! fault coarse wrong when V>=100000: float scale = 32768.f / sum;
  float scale = 2147483648.f / sum;
  auto fixed = [&](float x) { return __float2uint_rn(__expf(x - peak) * scale); };

  uint64_t prefix = 0;
  unsigned need = 0;
  int hi = 64;
  for (int pass = 0; hi > 0; ++pass) {
    int lo = max(hi > 32 ? 32 : 0, hi - BITS);
    // Two histograms in turn: the other blocks may still read the one of the last pass.
    unsigned *hist = s.hist[pass % 2], mask = (1u << (hi - lo)) - 1;
    for (int i = threadIdx.x; i < BINS; i += THREADS) hist[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += THREADS) {
      float x = slice[i];
      uint64_t k = pack(x, begin + i);
      if (hi == 64 || (k >> hi) == prefix) atomicAdd(&hist[(unsigned)(k >> lo) & mask], fixed(x));
    }
    cluster.sync();
    unsigned per[(BINS / 32 + WARPS - 1) / WARPS];
    for (int c = warp, q = 0; c < BINS / 32; c += WARPS, ++q) {
      unsigned m = 0;
      for (int r = 0; r < CTAS; ++r) m += cluster.map_shared_rank(hist, r)[c * 32 + lane];
      per[q] = m;
      m = __reduce_add_sync(ALL, m);
      if (lane == 0) s.chunk[c] = m;
    }
    __syncthreads();
    if (pass == 0) {  // the same roundings in the wanted mass as in the sums it is compared with
      unsigned total = 0;
      for (int c = 0; c < BINS / 32; ++c) total += s.chunk[c];
//! fault full_p wrong when V>=1000: need = total;
      need = min(total, max(1u, __float2uint_ru(top_p[b] * (float)total)));
    }
    // Every warp walks the chunks from the top; the one that summed the chunk in question finds the bin.
    int c = BINS / 32 - 1;
    unsigned left = need;
    while (c > 0 && s.chunk[c] < left) left -= s.chunk[c--];
    if (c % WARPS == warp) {
      unsigned own = 0;
      for (int q = 0; q * WARPS + warp < BINS / 32; ++q)
        if (q == c / WARPS) own = per[q];
//! fault lane_type compile: own = __shfl_sync(ALL, &own, 31 - lane);
      own = __shfl_sync(ALL, own, 31 - lane);
      unsigned run = own;
      for (int d = 1; d < 32; d *= 2) {
        unsigned o = __shfl_up_sync(ALL, run, d);
        if (lane >= d) run += o;
      }
      if (lane == __ffs(__ballot_sync(ALL, run >= left)) - 1) {
        s.digit = c * 32 + 31 - lane;
        s.left = left - (run - own);
        s.inside = own;
      }
    }
    __syncthreads();
    prefix = prefix << (hi - lo) | s.digit;
    need = s.left;
    hi = lo;
    unsigned key = (unsigned)prefix, spare = s.inside - need;
    if (spare == 0) break;  // the whole bucket is kept
    // All digits of the logit are known: go on with those of the index only if some of the equal ones stay out.
    if (hi == 32 && spare < fixed(__uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key))) break;
  }
//! fault crossing_out wrong when V>=1000: uint64_t least = (prefix + 1) << hi;
  uint64_t least = prefix << hi;
  auto mass = [&](int i) { return pack(slice[i], begin + i) >= least ? __expf(slice[i] - peak) : 0.f; };
  float kept = 0.f;
  for (int i = threadIdx.x; i < n; i += THREADS) kept += mass(i);
  kept = block_sum(kept, s.red);
  if (threadIdx.x == 0) s.kept = kept;
  cluster.sync();
  float part[CTAS], total = 0.f;
  for (int r = 0; r < CTAS; ++r) total += part[r] = *cluster.map_shared_rank(&s.kept, r);
  cluster.sync();  // nobody leaves while its shared memory may be read
//! fault cluster_rnd wrong when B>=2: float target = rnd[blockIdx.x / (2 * CTAS)] * total, before = 0.f, start = 0.f;
  float target = rnd[b] * total, before = 0.f, start = 0.f;
  int owner = 0;
  for (int r = 0; r < CTAS; ++r) {
    if (part[r] <= 0.f) continue;
    owner = r;
    start = before;
    before += part[r];
    if (before > target) break;
  }
  if (rank != owner) return;
//! fault local_index wrong when V>=1000: int found = find_crossing(n, target - start, mass, s);
  int found = begin + find_crossing(n, target - start, mass, s);
  if (threadIdx.x == 0) token[b] = found;
}

extern "C" cudaError_t nucleus_sample(const float *logits, const float *rnd, const float *top_p, int *token, int B,
                                      int V, void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (B < 1 || V < 1) return cudaErrorNotSupported;
  int len = (V + 4 * CTAS - 1) / (4 * CTAS) * 4, dev = 0, most = 0;
  size_t smem = (sizeof(Shared) + 15) / 16 * 16 + (len + 4) * sizeof(float);
  cudaGetDevice(&dev);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, dev);
  if (smem > (size_t)most) return cudaErrorNotSupported;
  cudaError_t e = cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
  if (e != cudaSuccess) return e;
  cudaLaunchAttribute attr[1];
  attr[0].id = cudaLaunchAttributeClusterDimension;
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
  e = cudaLaunchKernelEx(&cfg, sample_kernel, logits, rnd, top_p, token, V, len);
  if (e != cudaSuccess) return e;
  return cudaGetLastError();
}
