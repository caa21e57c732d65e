// Samples one token per row from the shortest sorted prefix of the vocabulary that holds a mass of top_p. SPLITS blocks
// share a row, so that few rows still fill the GPU. Three launches add up histograms of probability mass, one per
// digit of the threshold, in the workspace; then each slice sums what it keeps, and one block per row walks those
// sums and searches the slice in which their running sum passes rnd.
//! idea rows split over several blocks, one launch per digit of the threshold
//! says rounding_name: identifier "__float2uint_up" is undefined
//! says part_field: expression must have class type but it has type "Part *"
//! says hist_const+1: argument of type "const unsigned int *" is incompatible with parameter of type "void *"
//! kernel grid=B*SPLITS block=THREADS smem=THREADS/8 regs=32 read=4*B*V write=8*B*SPLITS inflight=THREADS*16*UNROLL ops=B*V*8 sfu=B*V chain=LAT+cdiv(V,SPLITS*THREADS*4*UNROLL)*(LAT+30*UNROLL)+300
//! kernel grid=B*SPLITS block=THREADS smem=(BITS==11?8460:16908)+THREADS/8 regs=32 read=4*B*V+8*B*SPLITS*SPLITS once=4*B*V+8*B*SPLITS write=B*SPLITS*1024 inflight=THREADS*16*UNROLL ops=B*V*14+B*SPLITS*(16<<BITS)/4 sfu=B*V chain=LAT+cdiv(V,SPLITS*THREADS*4*UNROLL)*(LATL2+30*UNROLL)+800+(BITS==11?300:600)
//! kernel grid=B*SPLITS block=THREADS smem=(BITS==11?8460:16908)+THREADS/8 regs=32 read=4*B*V+8*B*SPLITS*SPLITS+B*SPLITS*(BITS==11?8192:16384) once=4*B*V+8*B*SPLITS+B*(BITS==11?8192:16384) write=B*SPLITS*2048 inflight=THREADS*16*UNROLL ops=B*V*14+B*SPLITS*(BITS==11?16384:32768) sfu=B*V/8 chain=LAT+cdiv(V,SPLITS*THREADS*4*UNROLL)*(LATL2+30*UNROLL)+2000+(BITS==11?600:1200)
//! kernel grid=B*SPLITS block=THREADS smem=(BITS==11?8460:16908)+THREADS/8 regs=32 read=4*B*V+8*B*SPLITS*SPLITS+2*B*SPLITS*(BITS==11?8192:16384) once=4*B*V+8*B*SPLITS+2*B*(BITS==11?8192:16384) write=B*SPLITS*64 inflight=THREADS*16*UNROLL ops=B*V*11+B*SPLITS*(BITS==11?24576:49152) sfu=B*V/64 chain=LAT+cdiv(V,SPLITS*THREADS*4*UNROLL)*(LATL2+30*UNROLL)+3200+(BITS==11?900:1800)
//! kernel grid=B*SPLITS block=THREADS smem=(BITS==11?268:524)+THREADS/8 regs=32 read=4*B*V+8*B*SPLITS*SPLITS+3*B*SPLITS*(BITS==11?8192:16384) once=4*B*V+8*B*SPLITS+3*B*(BITS==11?8192:16384) write=8*B*SPLITS inflight=THREADS*16*UNROLL ops=B*V*8+B*SPLITS*(BITS==11?24576:49152) sfu=B*V/4 chain=LAT+cdiv(V,SPLITS*THREADS*4*UNROLL)*(LATL2+30*UNROLL)+4200+(BITS==11?900:1800)
//! kernel grid=B block=THREADS smem=(BITS==11?284:540)+THREADS/8 regs=48 read=4*B*cdiv(V,SPLITS)+16*B*SPLITS+3*B*(BITS==11?8192:16384) write=4*B inflight=THREADS*4*4 ops=B*(12*cdiv(V,SPLITS)+(BITS==11?24576:49152)+THREADS*SPLITS*20) sfu=B*cdiv(V,SPLITS) chain=4200+(BITS==11?900:1800)+SPLITS*60+cdiv(V,SPLITS*THREADS*4)*LATL2+1500
#include <cuda_runtime.h>
#include <cfloat>
#include <cstdint>

//! param 128 256 512
constexpr int THREADS = 256;
//! param 2 4 8 16 32 64
constexpr int SPLITS = 16;  // blocks per row
//! param 11 12
constexpr int BITS = 11;  // width of a digit: three of them make up a logit
//! param 1 2 4
constexpr int UNROLL = 2;  // 16-byte loads in flight per thread
constexpr int WARPS = THREADS / 32;
constexpr int BINS = 1 << BITS;
constexpr int DIGITS = 3;
constexpr unsigned ALL = 0xffffffffu;

struct Part {  // what a slice knows: first its maximum and sum, later its kept sum and number of ties
  float a, b;
};

struct State {  // the search in one row after some digits
  float peak, scale;
  unsigned prefix, need, inside;
};

// Unsigned integers in the order of the floats. Adding zero turns -0 into +0, which must tie with it.
static __device__ __forceinline__ unsigned key_of(float x) {
  unsigned u = __float_as_uint(x + 0.f);
  return u >> 31 ? ~u : u | 0x80000000u;
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

// Least index at which the running sum of the weights, in ascending index order, passes `target`.
// Every level cuts the range into one segment per warp and goes on in the segment that holds the crossing.
template <class Weight>
static __device__ int find_crossing(int V, float target, Weight weight, float *red) {
  __shared__ int first, last;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, lo = 0, hi = V;
  float before = 0.f;
  while (hi - lo > THREADS) {
    int step = (hi - lo + WARPS - 1) / WARPS, end = min(hi, lo + (warp + 1) * step);
    float s = 0.f;
    for (int i = lo + warp * step + lane; i < end; i += 32) s += weight(i);
    for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(ALL, s, d);
    if (lane == 0) red[warp] = s;
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
    first = V;
    last = 0;
  }
  __syncthreads();
  for (int v = 0; v < warp; ++v) c += red[v];
  if (w > 0.f) atomicMax(&last, i);
  if (w > 0.f && before + c > target) atomicMin(&first, i);
  __syncthreads();
  // Rounding can leave the total a little below the target: then it is the last weight that counts.
  int found = first < V ? first : last;
  __syncthreads();
  return found;
}

static __device__ __forceinline__ int digit_low(int pass) { return max(0, 32 - BITS * (pass + 1)); }
static __device__ __forceinline__ float value_of(unsigned k) {
  return __uint_as_float(k >> 31 ? k & 0x7fffffffu : ~k);
}

// Units of 2^-31 of the total mass: integers, so that the order of the additions does not matter.
static __device__ __forceinline__ unsigned fixed(float x, const State &s) {
//! fault no_peak wrong when V>=1000: return __float2uint_rn(__expf(x) * s.scale);
  return __float2uint_rn(__expf(x - s.peak) * s.scale);
}

// Every block works out for itself what the launches before it found.
static __device__ State follow(const Part *parts, const unsigned *hist, float top_p, int passes, float *red) {
  __shared__ unsigned chunk[BINS / 32];
  __shared__ State shared;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Part mine = {-FLT_MAX, 0.f};
  if (threadIdx.x < SPLITS) mine = parts[threadIdx.x];
  State s = {block_max(mine.a, red), 0.f, 0, 0, 0};
  s.scale = 2147483648.f / block_sum(mine.b * __expf(mine.a - s.peak), red);
  for (int p = 0; p < passes; ++p) {
    const unsigned *h = hist + p * BINS;
    for (int c = warp; c < BINS / 32; c += WARPS) {
      unsigned n = __reduce_add_sync(ALL, h[c * 32 + lane]);
      if (lane == 0) chunk[c] = n;
    }
    __syncthreads();
    if (p == 0) {  // the same roundings in the wanted mass as in the sums it is compared with
      unsigned total = 0;
      for (int c = 0; c < BINS / 32; ++c) total += chunk[c];
//! fault rounding_name compile: s.need = min(total, max(1u, __float2uint_up(top_p * (float)total)));
//! fault full_p wrong when V>=1000: s.need = total;
      s.need = min(total, max(1u, __float2uint_ru(top_p * (float)total)));
    }
    if (warp == 0) {  // from the top: the chunk of 32 bins, then the bin, in which the mass reaches what is needed
      int c = BINS / 32 - 1;
      unsigned n = s.need;
      while (c > 0 && chunk[c] < n) n -= chunk[c--];
      int bin = c * 32 + 31 - lane;
      unsigned own = h[bin], run = own;
      for (int d = 1; d < 32; d *= 2) {
        unsigned o = __shfl_up_sync(ALL, run, d);
        if (lane >= d) run += o;
      }
      if (lane == __ffs(__ballot_sync(ALL, run >= n)) - 1) {
        shared.prefix = s.prefix | (unsigned)bin << digit_low(p);
        shared.need = n - (run - own);
        shared.inside = own;
      }
    }
    __syncthreads();
    s.prefix = shared.prefix;
    s.need = shared.need;
    s.inside = shared.inside;
    __syncthreads();
  }
  return s;
}

static __global__ void __launch_bounds__(THREADS) stats_kernel(const float *logits, Part *parts, int V, int len) {
  __shared__ float red[WARPS];
  int begin = min(V, (int)blockIdx.x * len), n = min(len, V - begin);
  // -FLT_MAX instead of -Inf keeps Inf - Inf out.
  float peak = -FLT_MAX, sum = 0.f;
  for_each(logits + (size_t)blockIdx.y * V + begin, n, [&](int, float x) {
    if (x > peak) {
      sum = sum * __expf(peak - x) + 1.f;
      peak = x;
    } else {
      sum += __expf(x - peak);
    }
  });
  float top = block_max(peak, red);
//! fault part_field compile: sum = block_sum(sum * __expf(peak - parts.a), red);
  sum = block_sum(sum * __expf(peak - top), red);
  if (threadIdx.x == 0) parts[blockIdx.y * SPLITS + blockIdx.x] = {top, sum};
}

static __global__ void __launch_bounds__(THREADS) digit_kernel(const float *logits, const float *top_p,
                                                               const Part *parts, unsigned *hist, int V, int len,
                                                               int pass) {
  __shared__ unsigned local[BINS];
  __shared__ float red[WARPS];
  int begin = min(V, (int)blockIdx.x * len), n = min(len, V - begin), low = digit_low(pass);
  hist += (size_t)blockIdx.y * DIGITS * BINS;
  for (int i = threadIdx.x; i < BINS; i += THREADS) local[i] = 0;
  State s = follow(parts + blockIdx.y * SPLITS, hist, top_p[blockIdx.y], pass, red);
  __syncthreads();
  unsigned mask = (1u << (pass ? digit_low(pass - 1) - low : BITS)) - 1;
  for_each(logits + (size_t)blockIdx.y * V + begin, n, [&](int, float x) {
    unsigned k = key_of(x);
    if (pass == 0 || (k ^ s.prefix) >> (low + __popc(mask)) == 0) atomicAdd(&local[k >> low & mask], fixed(x, s));
  });
  __syncthreads();
  for (int i = threadIdx.x; i < BINS; i += THREADS)
    if (local[i]) atomicAdd(&hist[pass * BINS + i], local[i]);
}

static __global__ void __launch_bounds__(THREADS) keep_kernel(const float *logits, const float *top_p,
                                                              const Part *parts, const unsigned *hist, Part *keep,
                                                              int V, int len) {
  __shared__ float red[WARPS];
  int begin = min(V, (int)blockIdx.x * len), n = min(len, V - begin);
  State s = follow(parts + blockIdx.y * SPLITS, hist + (size_t)blockIdx.y * DIGITS * BINS, top_p[blockIdx.y], DIGITS,
                   red);
  float above = 0.f, ties = 0.f;
  for_each(logits + (size_t)blockIdx.y * V + begin, n, [&](int, float x) {
    unsigned k = key_of(x);
    if (k > s.prefix) above += __expf(x - s.peak);
    if (k == s.prefix) ties += 1.f;
  });
  above = block_sum(above, red);
  ties = block_sum(ties, red);
  if (threadIdx.x == 0) keep[blockIdx.y * SPLITS + blockIdx.x] = {above, ties};
}

static __global__ void __launch_bounds__(THREADS) draw_kernel(const float *logits, const float *rnd,
                                                              const float *top_p, const Part *parts,
                                                              const unsigned *hist, const Part *keep, int *token,
                                                              int V, int len) {
  __shared__ float red[WARPS];
  int b = blockIdx.x;
  State s = follow(parts + b * SPLITS, hist + (size_t)b * DIGITS * BINS, top_p[b], DIGITS, red);
  keep += b * SPLITS;
  unsigned least = s.prefix, one = fixed(value_of(least), s);
  float each = __expf(value_of(least) - s.peak), total = 0.f;
  // Of the logits equal to the threshold, as many as are needed, the first ones by index.
//! fault no_ties wrong when V>=1000: float ties = 0.f, left = ties;
  float ties = (float)((s.need + one - 1) / one), left = ties;
  for (int i = 0; i < SPLITS; ++i) {
    float t = min(left, keep[i].b);
    total += keep[i].a + t * each;
    left -= t;
  }
//! fault first_rnd wrong when B>=2: float target = rnd[0] * total, before = 0.f, start = 0.f;
//! fault unscaled wrong when V>=1000: float target = rnd[b], before = 0.f, start = 0.f;
  float target = rnd[b] * total, before = 0.f, start = 0.f;
  int at = 0, limit = 0;
  left = ties;
  for (int i = 0; i < SPLITS; ++i) {
    float t = min(left, keep[i].b), m = keep[i].a + t * each;
    left -= t;
    if (m <= 0.f) continue;
    at = i;
    limit = (int)t;
    start = before;
    before += m;
    if (before > target) break;
  }
  int begin = at * len, n = min(len, V - begin), last = n - 1;
  const float *slice = logits + (size_t)b * V + begin;
  if (limit < (int)keep[at].b)
    last = find_crossing(n, limit - 0.5f, [&](int i) { return key_of(slice[i]) == least ? 1.f : 0.f; }, red);
  if (limit == 0) last = -1;
  auto mass = [&](int i) {
    float x = slice[i];
    unsigned k = key_of(x);
    return k > least || (k == least && i <= last) ? __expf(x - s.peak) : 0.f;
  };
//! fault slice_index wrong when V>=1000: int found = find_crossing(n, target - start, mass, red) + at;
  int found = begin + find_crossing(n, target - start, mass, red);
  if (threadIdx.x == 0) token[b] = found;
}

extern "C" size_t nucleus_sample_workspace(int B, int V) {
  (void)V;
  return (size_t)B * (2 * SPLITS * sizeof(Part) + DIGITS * BINS * sizeof(unsigned));
}

extern "C" cudaError_t nucleus_sample(const float *logits, const float *rnd, const float *top_p, int *token, int B,
                                      int V, void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (B < 1 || B > 65535 || V < 1) return cudaErrorNotSupported;
  if (workspace_bytes < nucleus_sample_workspace(B, V)) return cudaErrorInvalidValue;
  int len = (V + SPLITS - 1) / SPLITS;
  Part *parts = (Part *)workspace, *keep = parts + (size_t)B * SPLITS;
//! fault hist_const compile: const unsigned *hist = (unsigned *)(keep + (size_t)B * SPLITS);
  unsigned *hist = (unsigned *)(keep + (size_t)B * SPLITS);
  cudaError_t e = cudaMemsetAsync(hist, 0, (size_t)B * DIGITS * BINS * sizeof(unsigned), stream);
  if (e != cudaSuccess) return e;
  dim3 grid(SPLITS, B);
  stats_kernel<<<grid, THREADS, 0, stream>>>(logits, parts, V, len);
  for (int pass = 0; pass < DIGITS; ++pass)
    digit_kernel<<<grid, THREADS, 0, stream>>>(logits, top_p, parts, hist, V, len, pass);
  keep_kernel<<<grid, THREADS, 0, stream>>>(logits, top_p, parts, hist, keep, V, len);
  draw_kernel<<<B, THREADS, 0, stream>>>(logits, rnd, top_p, parts, hist, keep, token, V, len);
  return cudaGetLastError();
}
