// Samples one token per row from the K largest logits. SPLITS blocks share a row, so that few rows still fill the GPU:
// each finds the K largest of its slice by radix select and leaves them, packed with their indices, in the workspace.
// A second kernel selects the K largest of those SPLITS * K candidates and draws.
//! idea vocabulary split over several blocks, candidates merged by a second kernel
//! says add_args: no instance of overloaded function "atomicAdd" matches the argument list
//! says slot_type: a value of type "std::nullptr_t" cannot be assigned to an entity of type "uint64_t" (aka "unsigned long")
//! says workspace_cast: a value of type "void *" cannot be used to initialize an entity of type "uint64_t *" (aka "unsigned long *")
//! kernel grid=B*SPLITS block=THREADS smem=(BITS==8?1072:8464) regs=40 read=4*B*V*(cdiv(32,BITS)+1) once=4*B*V write=8*B*SPLITS*K inflight=THREADS*16*UNROLL ops=B*V*(cdiv(32,BITS)+1)*14 chain=LAT+cdiv(32,BITS)*1200+(cdiv(32,BITS)+1)*cdiv(V,SPLITS*THREADS*4*UNROLL)*(LATL2+20*UNROLL)
//! kernel grid=B block=THREADS smem=8192+(BITS==8?1072:8464) regs=32 read=8*B*SPLITS*K*(cdiv(32,BITS)+1)+4*B once=8*B*SPLITS*K+4*B write=4*B inflight=THREADS*8 ops=B*SPLITS*K*60 sfu=2*B*K chain=(cdiv(32,BITS)+1)*(cdiv(SPLITS*K,THREADS)*LATL2+1200)+3000
#include <cuda_runtime.h>
#include <cstdint>

//! param 128 256 512 1024
constexpr int THREADS = 256;
//! param 2 4 8 16 32 64
constexpr int SPLITS = 16;  // blocks per row
//! param 8 11
constexpr int BITS = 8;  // width of a digit
//! param 1 2 4
constexpr int UNROLL = 1;  // 16-byte loads in flight per thread
constexpr int WARPS = THREADS / 32;
constexpr int BINS = 1 << BITS;
constexpr int MAX_K = 1024;
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

// The least of the `need` largest packed values that `each` goes through. They are distinct, so it is exact.
template <class Each>
static __device__ uint64_t select(Each each, int need) {
  __shared__ unsigned hist[BINS], chunk[BINS / 32];
  __shared__ int digit, left, inside;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, hi = 64;
  uint64_t prefix = 0;
  while (hi > 0) {
    int lo = max(hi > 32 ? 32 : 0, hi - BITS);
    for (int i = threadIdx.x; i < BINS; i += THREADS) hist[i] = 0;
    __syncthreads();
    unsigned mask = (1u << (hi - lo)) - 1;
    each([&](uint64_t k) {
//! fault add_args compile: if (hi == 64 || (k >> hi) == prefix) atomicAdd(hist[(unsigned)(k >> lo) & mask], 1u);
      if (hi == 64 || (k >> hi) == prefix) atomicAdd(&hist[(unsigned)(k >> lo) & mask], 1u);
    });
    __syncthreads();
    for (int c = warp; c < BINS / 32; c += WARPS) {
      unsigned n = __reduce_add_sync(ALL, hist[c * 32 + lane]);
      if (lane == 0) chunk[c] = n;
    }
    __syncthreads();
    if (warp == 0) {  // from the top: the chunk of 32 bins, then the bin, that holds the last one needed
      int c = BINS / 32 - 1, n = need;
      while (c > 0 && (int)chunk[c] < n) n -= chunk[c--];
      int bin = c * 32 + 31 - lane, count = hist[bin], sum = count;
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
    if (inside == need) break;  // the whole bucket is needed
  }
  return prefix << hi;
}

static __global__ void __launch_bounds__(THREADS) slice_kernel(const float *logits, uint64_t *found, int V, int K) {
  __shared__ int kept;
  int len = (V + SPLITS - 1) / SPLITS, begin = min(V, (int)blockIdx.x * len), n = min(len, V - begin);
  const float *slice = logits + (size_t)blockIdx.y * V + begin;
  uint64_t *out = found + ((size_t)blockIdx.y * SPLITS + blockIdx.x) * K;
  uint64_t least = 0;
  // A slice of no more than K logits passes all of them on.
//! fault local_index wrong when V>=1000: if (n > K) least = select([&](auto f) { for_each(slice, n, [&](int i, float x) { f(pack(x, i)); }); }, K);
  if (n > K) least = select([&](auto f) { for_each(slice, n, [&](int i, float x) { f(pack(x, begin + i)); }); }, K);
  if (threadIdx.x == 0) kept = 0;
  for (int i = n + threadIdx.x; i < K; i += THREADS) out[i] = 0;
  __syncthreads();
  for_each(slice, n, [&](int i, float x) {
//! fault local_index wrong when V>=1000: uint64_t k = pack(x, i);
    uint64_t k = pack(x, begin + i);
    if (k >= least) out[atomicAdd(&kept, 1)] = k;
  });
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

static __global__ void __launch_bounds__(THREADS) merge_kernel(const uint64_t *found, const float *rnd, int *token,
                                                               int K) {
  __shared__ uint64_t list[MAX_K];
  __shared__ int kept;
  const uint64_t *all = found + (size_t)blockIdx.x * SPLITS * K;
//! fault last_slice wrong when (SPLITS-1)*cdiv(V,SPLITS)<V&&K<=(SPLITS-1)*cdiv(V,SPLITS): int n = (SPLITS - 1) * K;
  int n = SPLITS * K;
  uint64_t least = select([&](auto f) { for (int i = threadIdx.x; i < n; i += THREADS) f(all[i]); }, K);
  if (threadIdx.x == 0) kept = 0;
  int slots = 2;
  while (slots < K) slots *= 2;
//! fault slot_type compile: for (int i = threadIdx.x; i < slots; i += THREADS) list[i] = nullptr;
  for (int i = threadIdx.x; i < slots; i += THREADS) list[i] = ~0ull;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += THREADS) {
    uint64_t k = all[i];
    if (k < least) continue;
    unsigned u = (unsigned)(k >> 32);
//! fault unmapped wrong when K>=10:
    u = u >> 31 ? u & 0x7fffffffu : ~u;
    int at = atomicAdd(&kept, 1);
    if (at < K) list[at] = (uint64_t)(unsigned)~(unsigned)k << 32 | u;
  }
  __syncthreads();
  sort_list(list, slots);
//! fault first_rnd wrong when B>=2 && K>=2: if (threadIdx.x < 32) draw(list, K, rnd[0], token + blockIdx.x);
  if (threadIdx.x < 32) draw(list, K, rnd[blockIdx.x], token + blockIdx.x);
}

extern "C" size_t topk_sample_workspace(int B, int V, int K) {
  (void)V;
  return (size_t)B * SPLITS * K * sizeof(uint64_t);
}

extern "C" cudaError_t topk_sample(const float *logits, const float *rnd, int *token, int B, int V, int K,
                                   void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (B < 1 || B > 65535 || V < 1 || K < 1 || K > V || K > MAX_K) return cudaErrorNotSupported;
  if (workspace_bytes < topk_sample_workspace(B, V, K)) return cudaErrorInvalidValue;
//! fault workspace_cast compile: uint64_t *found = workspace;
  uint64_t *found = (uint64_t *)workspace;
  slice_kernel<<<dim3(SPLITS, B), THREADS, 0, stream>>>(logits, found, V, K);
  merge_kernel<<<B, THREADS, 0, stream>>>(found, rnd, token, K);
  return cudaGetLastError();
}
