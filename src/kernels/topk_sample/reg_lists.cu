// Samples one token per row from the K largest logits in one pass over the row. Every thread keeps the DEPTH largest
// logits of its slice sorted in registers; a bitonic sort of all lists in shared memory then yields the K largest.
// Should one thread's slice hold too many of them, the block searches the threshold over the row instead.
//! idea sorted candidate lists in registers, merged by a bitonic sort
//! says ptr_list: expression must be a modifiable lvalue
//! says sort_type: argument of type "float *" is incompatible with parameter of type "uint64_t *" (aka "unsigned long *")
//! says short_vote: too few arguments in function call
//! kernel grid=B block=THREADS smem=8*THREADS*DEPTH+8 regs=24+2*DEPTH+4*UNROLL read=4*B*V once=4*B*V+4*B write=4*B inflight=THREADS*16*UNROLL ops=B*(V*7+THREADS*DEPTH*1000) sfu=2*B*K chain=cdiv(V,THREADS*4*UNROLL)*(LAT+24*UNROLL)+60*(DEPTH==2?8:DEPTH==4?12:20)*60+3000
#include <cuda_runtime.h>
#include <cstdint>

//! param 128 256 512 1024
constexpr int THREADS = 512;
//! param 2 4 8
constexpr int DEPTH = 4;  // candidates per thread
//! param 1 2 4
constexpr int UNROLL = 2;  // 16-byte loads in flight per thread
//! legal 8*K<=THREADS*DEPTH
constexpr int SLOTS = THREADS * DEPTH;
constexpr unsigned ALL = 0xffffffffu;

// The order of the floats in the high word, lower indices first in the low word. Adding zero turns -0 into +0.
static __device__ __forceinline__ uint64_t pack(float x, int i) {
  unsigned u = __float_as_uint(x + 0.f);
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
  for (int i = lo; i < hi; ++i) peak = fmaxf(peak, __uint_as_float((unsigned)list[i]));
  for (int d = 16; d > 0; d /= 2) peak = fmaxf(peak, __shfl_xor_sync(ALL, peak, d));
  for (int i = lo; i < hi; ++i) s += __expf(__uint_as_float((unsigned)list[i]) - peak);
  float run = s;
  for (int d = 1; d < 32; d *= 2) {
    float o = __shfl_up_sync(ALL, run, d);
    if (lane >= d) run += o;
  }
//! fault first_total wrong when K>=10: float target = r * __shfl_sync(ALL, run, 0), c = __shfl_up_sync(ALL, run, 1);
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

// Rare: the least packed value of the K largest, found bit by bit with one pass over the row for each.
static __device__ uint64_t search_threshold(const float *row, int V, int K) {
  __shared__ int count;
  uint64_t least = 0;
  for (int bit = 63; bit >= 0; --bit) {
    uint64_t trial = least | 1ull << bit;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    int n = 0;
    for_each(row, V, [&](int i, float x) { n += pack(x, i) >= trial; });
    n = __reduce_add_sync(ALL, n);
    if (threadIdx.x % 32 == 0) atomicAdd(&count, n);
    __syncthreads();
    if (count >= K) least = trial;
    __syncthreads();
  }
  return least;
}

static __global__ void __launch_bounds__(THREADS) sample_kernel(const float *logits, const float *rnd, int *token,
                                                                int V, int K) {
  extern __shared__ uint64_t list[];
  __shared__ int kept;
  const float *row = logits + (size_t)blockIdx.x * V;
  uint64_t mine[DEPTH];
#pragma unroll
  for (int r = 0; r < DEPTH; ++r) mine[r] = 0;
  for_each(row, V, [&](int i, float x) {
    uint64_t k = pack(x, i);
    if (k <= mine[DEPTH - 1]) return;
//! fault no_slide wrong when K>=20&&K<V: mine[0] = k;
    mine[DEPTH - 1] = k;
#pragma unroll
    for (int r = DEPTH - 1; r > 0; --r)
      if (mine[r] > mine[r - 1]) {
        uint64_t t = mine[r];
        mine[r] = mine[r - 1];
        mine[r - 1] = t;
      }
  });
  // Complemented, so that the ascending sort puts the largest first.
#pragma unroll
//! fault ptr_list compile: for (int r = 0; r < DEPTH; ++r) &list[r * THREADS + threadIdx.x] = ~mine[r];
  for (int r = 0; r < DEPTH; ++r) list[r * THREADS + threadIdx.x] = ~mine[r];
  __syncthreads();
//! fault sort_type compile: sort_list((float *)list, SLOTS);
  sort_list(list, SLOTS);
  uint64_t least = ~list[K - 1];
  int n = 2;
  while (n < K) n *= 2;
  // A thread whose last candidate is among the K largest may have dropped another one that belongs there.
//! fault short_vote compile: if (__syncthreads_or()) {
  if (__syncthreads_or(mine[DEPTH - 1] > least)) {
    least = search_threshold(row, V, K);
    if (threadIdx.x == 0) kept = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) list[i] = ~0ull;
    __syncthreads();
    for_each(row, V, [&](int i, float x) {
      if (pack(x, i) < least) return;
      int at = atomicAdd(&kept, 1);
      if (at < K) list[at] = (uint64_t)(unsigned)i << 32 | __float_as_uint(x);
    });
  } else {
    for (int i = threadIdx.x; i < n; i += THREADS) {
      uint64_t k = ~list[i];
      unsigned u = (unsigned)(k >> 32);
      u = u >> 31 ? u & 0x7fffffffu : ~u;
//! fault kept_complement wrong: list[i] = i < K ? (uint64_t)(unsigned)k << 32 | u : ~0ull;
      list[i] = i < K ? (uint64_t)(unsigned)~(unsigned)k << 32 | u : ~0ull;
    }
  }
  __syncthreads();
//! fault no_resort wrong when K>=20&&K<V:
  sort_list(list, n);
//! fault first_rnd wrong when B>=2 && K>=2: if (threadIdx.x < 32) draw(list, K, rnd[0], token + blockIdx.x);
  if (threadIdx.x < 32) draw(list, K, rnd[blockIdx.x], token + blockIdx.x);
}

extern "C" cudaError_t topk_sample(const float *logits, const float *rnd, int *token, int B, int V, int K,
                                   void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (B < 1 || V < 1 || K < 1 || K > V || 8 * K > SLOTS) return cudaErrorNotSupported;
  size_t smem = SLOTS * sizeof(uint64_t);
  cudaError_t e = cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
  if (e != cudaSuccess) return e;
//! fault shape_swap wrong when B>=2: sample_kernel<<<1, THREADS, smem, stream>>>(logits, rnd, token, V, K);
//! shows shape_swap: unwritten
  sample_kernel<<<B, THREADS, smem, stream>>>(logits, rnd, token, V, K);
  return cudaGetLastError();
}
