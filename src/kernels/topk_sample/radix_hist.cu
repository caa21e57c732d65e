// Samples one token per row from the K largest logits. A block per row selects them digit by digit from the top:
// a histogram in shared memory tells which bucket the K-th largest falls into, so a row is read a handful of
// times instead of once per bit. The index is part of the key, hence ties need no care of their own.
//! idea radix select with digit histograms in shared memory
//! says wide_list: expression must have class type but it has type "const uint64_t"
//! says reduce_name: identifier "__reduce_sum_sync" is undefined
//! says unsorted_args: too few arguments in function call
//! kernel grid=B block=THREADS smem=8208+COPIES*4*(BITS==6?64:BITS==8?256:BITS==10?1024:2048)+(BITS==6?8:BITS==8?32:BITS==10?128:256) regs=28+4*UNROLL+2*COPIES read=4*B*V*(cdiv(32,BITS)+1) once=4*B*V+4*B write=4*B inflight=THREADS*16*UNROLL ops=B*V*(cdiv(32,BITS)+1)*14 sfu=2*B*K chain=(cdiv(32,BITS)+1)*(cdiv(V,THREADS*4*UNROLL)*(LATL2+20*UNROLL)+1200)+3000
#include <cuda_runtime.h>
#include <cstdint>

//! param 128 256 512 1024
constexpr int THREADS = 512;
//! param 6 8 10 11
constexpr int BITS = 8;  // width of a digit
//! param 1 2 4
constexpr int UNROLL = 2;  // 16-byte loads in flight per thread
//! param 1 2 4
constexpr int COPIES = 1;  // histograms, so that fewer warps meet in one counter
constexpr int WARPS = THREADS / 32;
constexpr int BINS = 1 << BITS;
constexpr int MAX_K = 1024;
constexpr unsigned ALL = 0xffffffffu;

// The order of the floats in the high word, lower indices first in the low word. Adding zero turns -0 into +0.
static __device__ __forceinline__ uint64_t pack(float x, int i) {
  unsigned u = __float_as_uint(x + 0.f);
//! fault magnitude wrong when K>=20&&K<V: u = u | 0x80000000u;
  u = u >> 31 ? ~u : u | 0x80000000u;
  return (uint64_t)u << 32 | (unsigned)~i;
}

// Calls f(index, value) for every logit. Rows begin at any multiple of 4 bytes: the body is read 16 bytes at a time.
template <class F>
static __device__ __forceinline__ void for_each(const float *row, int V, F f) {
  int head = min(V, (int)(((16 - ((uintptr_t)row & 15)) & 15) / 4)), n4 = (V - head) / 4;
  const float4 *body = (const float4 *)(row + head);
  if (threadIdx.x < head) f(threadIdx.x, row[threadIdx.x]);
  for (int i = threadIdx.x; i < n4; i += UNROLL * THREADS) {
    float4 v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (i + u * THREADS < n4) v[u] = body[i + u * THREADS];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      int j = head + 4 * (i + u * THREADS);
      if (i + u * THREADS >= n4) break;
      f(j, v[u].x);
      f(j + 1, v[u].y);
      f(j + 2, v[u].z);
      f(j + 3, v[u].w);
    }
  }
  int rest = head + 4 * n4 + threadIdx.x;
//! fault no_rest wrong when V%4!=0&&K<=V-4: if (rest < n4) f(rest, row[rest]);
  if (rest < V) f(rest, row[rest]);
}

// Ascending bitonic sort of n values, n a power of two.
static __device__ void sort_list(uint64_t *a, int n) {
  for (int k = 2; k <= n; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      for (int i = threadIdx.x; i < n / 2; i += THREADS) {
        int lo = 2 * i - (i & (j - 1)), hi = lo + j;
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
//! fault wide_list compile: for (int i = lo; i < hi; ++i) peak = fmaxf(peak, __uint_as_float(list[i].x));
  for (int i = lo; i < hi; ++i) peak = fmaxf(peak, __uint_as_float((unsigned)list[i]));
//! fault no_peak wrong when K>=10: peak = 0.f;
  for (int d = 16; d > 0; d /= 2) peak = fmaxf(peak, __shfl_xor_sync(ALL, peak, d));
//! fault base2 wrong when K>=10: for (int i = lo; i < hi; ++i) s += exp2f(__uint_as_float((unsigned)list[i]) - peak);
  for (int i = lo; i < hi; ++i) s += __expf(__uint_as_float((unsigned)list[i]) - peak);
  float run = s;
  for (int d = 1; d < 32; d *= 2) {
    float o = __shfl_up_sync(ALL, run, d);
    if (lane >= d) run += o;
  }
  float target = r * __shfl_sync(ALL, run, 31), c = __shfl_up_sync(ALL, run, 1);
  if (lane == 0) c = 0.f;
  int found = -1, last = -1;
  for (int i = lo; i < hi; ++i) {
//! fault base2 wrong when K>=10: float p = exp2f(__uint_as_float((unsigned)list[i]) - peak);
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
                                                                int V, int K) {
  __shared__ uint64_t list[MAX_K];
  __shared__ unsigned hist[COPIES][BINS];
  __shared__ unsigned chunk[BINS / 32];
  __shared__ int digit, left, inside, kept;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float *row = logits + (size_t)blockIdx.x * V;
  uint64_t prefix = 0;
  int need = K, hi = 64;
  while (hi > 0) {
    int lo = max(hi > 32 ? 32 : 0, hi - BITS);
    for (int i = threadIdx.x; i < COPIES * BINS; i += THREADS) (&hist[0][0])[i] = 0;
    __syncthreads();
    unsigned *mine = hist[warp % COPIES], mask = (1u << (hi - lo)) - 1;
    for_each(row, V, [&](int i, float x) {
      uint64_t k = pack(x, i);
      if (hi == 64 || (k >> hi) == prefix) atomicAdd(&mine[(unsigned)(k >> lo) & mask], 1u);
    });
    __syncthreads();
    for (int c = warp; c < BINS / 32; c += WARPS) {
      unsigned n = 0;
      for (int j = 0; j < COPIES; ++j) n += hist[j][c * 32 + lane];
      hist[0][c * 32 + lane] = n;
//! fault reduce_name compile: n = __reduce_sum_sync(ALL, n);
      n = __reduce_add_sync(ALL, n);
      if (lane == 0) chunk[c] = n;
    }
    __syncthreads();
    if (warp == 0) {  // from the top: the chunk of 32 bins, then the bin, that holds the K-th largest
      int c = BINS / 32 - 1, n = need;
      while (c > 0 && (int)chunk[c] < n) n -= chunk[c--];
      int bin = c * 32 + 31 - lane, count = hist[0][bin], sum = count;
      for (int d = 1; d < 32; d *= 2) {
        int o = __shfl_up_sync(ALL, sum, d);
        if (lane >= d) sum += o;
      }
      if (lane == __ffs(__ballot_sync(ALL, sum >= n)) - 1) {
        digit = bin;
        left = n - (sum - count);
        inside = count;
      }
    }
    __syncthreads();
    prefix = prefix << (hi - lo) | (unsigned)digit;
    need = left;
    hi = lo;
    if (inside == need) break;  // the whole bucket is kept
  }
  uint64_t least = prefix << hi;

  if (threadIdx.x == 0) kept = 0;
  int n = 2;
  while (n < K) n *= 2;
  for (int i = threadIdx.x; i < n; i += THREADS) list[i] = ~0ull;
  __syncthreads();
  for_each(row, V, [&](int i, float x) {
    if (pack(x, i) < least) return;
    int at = atomicAdd(&kept, 1);
    if (at < K) list[at] = (uint64_t)(unsigned)i << 32 | __float_as_uint(x);
  });
  __syncthreads();
//! fault unsorted_args compile: sort_list(list);
  sort_list(list, n);
//! fault first_rnd wrong when B>=2 && K>=2: if (warp == 0) draw(list, K, rnd[0], token + blockIdx.x);
//! fault one_short wrong when K>=10: if (warp == 0) draw(list, K - 1, rnd[blockIdx.x], token + blockIdx.x);
  if (warp == 0) draw(list, K, rnd[blockIdx.x], token + blockIdx.x);
}

extern "C" cudaError_t topk_sample(const float *logits, const float *rnd, int *token, int B, int V, int K,
                                   void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (B < 1 || V < 1 || K < 1 || K > V || K > MAX_K) return cudaErrorNotSupported;
  sample_kernel<<<B, THREADS, 0, stream>>>(logits, rnd, token, V, K);
  return cudaGetLastError();
}
