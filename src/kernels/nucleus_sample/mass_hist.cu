// Samples one token per row from the shortest sorted prefix of the vocabulary that holds a mass of top_p. A block per
// row finds the threshold digit by digit from the top: a histogram in shared memory adds up the probabilities, as
// 32-bit fixed-point numbers so that the order of the additions does not matter. The row is read about five times.
//! idea radix threshold search on histograms of probability mass
//! kernel grid=B block=THREADS smem=4*COPIES*(BITS==6?64:BITS==8?256:BITS==10?1024:2048)+(BITS==6?8:BITS==8?32:BITS==10?128:256)+THREADS/8+24 regs=34+2*UNROLL+2*COPIES read=4*B*V*(cdiv(32,BITS)+2) once=4*B*V+8*B write=4*B inflight=THREADS*16*UNROLL ops=B*V*(cdiv(32,BITS)*17+24) sfu=B*V*(cdiv(32,BITS)+2) chain=(cdiv(32,BITS)+2)*(cdiv(V,THREADS*4*UNROLL)*(LATL2+40*UNROLL)+1200)+1500
#include <cuda_runtime.h>
#include <cfloat>
#include <cstdint>

//! param 128 256 512 1024
constexpr int THREADS = 512;
//! param 6 8 10 11
constexpr int BITS = 8;  // width of a digit
//! param 1 2 4
constexpr int UNROLL = 2;  // 16-byte loads in flight per thread
//! param 1 2 4
constexpr int COPIES = 2;  // counters per bin, in neighbouring banks, so that fewer lanes meet in one
constexpr int WARPS = THREADS / 32;
constexpr int BINS = 1 << BITS;
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

// Least index at which the running sum of the weights, in ascending index order, passes the fraction r of the total.
// Every level cuts the range into one segment per warp and goes on in the segment that holds the crossing.
template <class Weight>
static __device__ int find_fraction(int V, float r, Weight weight, float *red) {
  __shared__ int first, last;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, lo = 0, hi = V;
  float before = 0.f, target = 0.f;
  bool whole = true;
  while (hi - lo > THREADS) {
    int step = (hi - lo + WARPS - 1) / WARPS, end = min(hi, lo + (warp + 1) * step);
    float s = 0.f;
#pragma unroll 8
    for (int i = lo + warp * step + lane; i < end; i += 32) s += weight(i);
    for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(ALL, s, d);
    if (lane == 0) red[warp] = s;
    __syncthreads();
    if (whole) {
      for (int w = 0; w < WARPS; ++w) target += red[w];
      target *= r;
      whole = false;
    }
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
    first = V;
    last = 0;
  }
  __syncthreads();
  if (whole) {
    for (int v = 0; v < WARPS; ++v) target += red[v];
    target *= r;
  }
  for (int v = 0; v < warp; ++v) c += red[v];
  if (w > 0.f) atomicMax(&last, i);
  if (w > 0.f && before + c > target) atomicMin(&first, i);
  __syncthreads();
  // Rounding can leave the total a little below the target: then it is the last weight that counts.
  int found = first < V ? first : last;
  __syncthreads();
  return found;
}

static __global__ void __launch_bounds__(THREADS) sample_kernel(const float *logits, const float *rnd,
                                                                const float *top_p, int *token, int V) {
  __shared__ unsigned hist[BINS * COPIES], chunk[BINS / 32], digit, left, inside;
  __shared__ float red[WARPS];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float *row = logits + (size_t)blockIdx.x * V;

  // Maximum and sum in one pass; -FLT_MAX instead of -Inf keeps Inf - Inf out.
  float peak = -FLT_MAX, sum = 0.f;
  for_each(row, V, [&](int, float x) {
    if (x > peak) {
      sum = sum * __expf(peak - x) + 1.f;
      peak = x;
    } else {
      sum += __expf(x - peak);
    }
  });
//! fault no_peak wrong when V>=1000: float top = fminf(0.f, block_max(peak, red));
  float top = block_max(peak, red);
  sum = block_sum(sum * __expf(peak - top), red);
//! fault coarse wrong when V>=100000: float scale = 32768.f / sum;
  float scale = 2147483648.f / sum;
  // In units of 2^-31 of the total; rounding cannot carry the sum over 2^32.
//! fault fixed_cast compile: auto fixed = [&](float x) { return __float2uint(__expf(x - top) * scale); };
//! says fixed_cast: identifier "__float2uint" is undefined
  auto fixed = [&](float x) { return __float2uint_rn(__expf(x - top) * scale); };

  uint64_t prefix = 0;
  unsigned need = 0;
  int hi = 64;
  while (hi > 0) {
    int lo = max(hi > 32 ? 32 : 0, hi - BITS);
    for (int i = threadIdx.x; i < BINS * COPIES; i += THREADS) hist[i] = 0;
    __syncthreads();
    unsigned mask = (1u << (hi - lo)) - 1;
    for_each(row, V, [&](int i, float x) {
      uint64_t k = pack(x, i);
      if (hi < 64 && (k >> hi) != prefix) return;
      atomicAdd(&hist[((unsigned)(k >> lo) & mask) * COPIES + lane % COPIES], fixed(x));
    });
    __syncthreads();
    for (int c = warp; c < BINS / 32; c += WARPS) {
      unsigned n = 0;
      for (int j = 0; j < COPIES; ++j) n += hist[(c * 32 + lane) * COPIES + j];
      __syncwarp();
      hist[(c * 32 + lane) * COPIES] = n;
      n = __reduce_add_sync(ALL, n);
      if (lane == 0) chunk[c] = n;
    }
    __syncthreads();
    if (hi == 64) {  // the same roundings in the wanted mass as in the sums it is compared with
      unsigned total = 0;
      for (int c = 0; c < BINS / 32; ++c) total += chunk[c];
//! fault full_p wrong when V>=1000: need = total;
//! fault min_args compile: need = min(total, max(1u, __float2uint_ru(top_p[blockIdx.x] * (float)total)), 0u);
//! says min_args: no instance of overloaded function "min" matches the argument list
      need = min(total, max(1u, __float2uint_ru(top_p[blockIdx.x] * (float)total)));
    }
    if (warp == 0) {  // from the top: the chunk of 32 bins, then the bin, in which the mass reaches what is needed
      int c = BINS / 32 - 1;
      unsigned n = need;
      while (c > 0 && chunk[c] < n) n -= chunk[c--];
      int bin = c * 32 + 31 - lane;
      unsigned own = hist[bin * COPIES], run = own;
      for (int d = 1; d < 32; d *= 2) {
        unsigned o = __shfl_up_sync(ALL, run, d);
        if (lane >= d) run += o;
      }
      if (lane == __ffs(__ballot_sync(ALL, run >= n)) - 1) {
        digit = bin;
        left = n - (run - own);
        inside = own;
      }
    }
    __syncthreads();
    prefix = prefix << (hi - lo) | digit;
    need = left;
    hi = lo;
    unsigned key = (unsigned)prefix, spare = inside - need;
    if (spare == 0) break;  // the whole bucket is kept
    // All digits of the logit are known: go on with those of the index only if some of the equal ones stay out.
    if (hi == 32 && spare < fixed(__uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key))) break;
  }
//! fault crossing_out wrong when V>=1000: uint64_t least = (prefix + 1) << hi;
  uint64_t least = prefix << hi;
  auto mass = [&](int i) {
    float x = row[i];
    return pack(x, i) >= least ? __expf(x - top) : 0.f;
  };
//! fault void_found compile: void found = find_fraction(V, rnd[blockIdx.x], mass, red);
//! says void_found: incomplete type "void" is not allowed
//! fault tail wrong when V%4!=0&&V>=1000: int found = find_fraction(V / 4 * 4, rnd[blockIdx.x], mass, red);
//! fault first_rnd wrong when B>=2: int found = find_fraction(V, rnd[0], mass, red);
  int found = find_fraction(V, rnd[blockIdx.x], mass, red);
  if (threadIdx.x == 0) token[blockIdx.x] = found;
}

extern "C" cudaError_t nucleus_sample(const float *logits, const float *rnd, const float *top_p, int *token, int B,
                                      int V, void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (B < 1 || V < 1) return cudaErrorNotSupported;
  sample_kernel<<<B, THREADS, 0, stream>>>(logits, rnd, top_p, token, V);
  return cudaGetLastError();
}
