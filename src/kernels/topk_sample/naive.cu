// Samples one token per row from the K largest logits. A block per row finds the K-th largest logit bit by bit:
// each of 32 passes over the row counts the logits that are not below a trial threshold. Three more passes
// settle ties, sum the kept probabilities and find the token where their running sum passes rnd.
//! idea a block per row, threshold by bisection over full passes
//! says hidden_count: identifier "warps" is undefined
//! says short_shuffle: no instance of overloaded function "__shfl_xor_sync" matches the argument list
//! says const_max: const variable "peak" requires an initializer
//! kernel grid=B block=THREADS smem=THREADS/8+16 regs=32 read=148*B*V once=4*B*V+4*B write=4*B inflight=THREADS*4*4 ops=B*V*37*7 sfu=2*B*K chain=38*(cdiv(V,THREADS*4)*LATL2+240)
#include <cuda_runtime.h>

//! param 64 128 256 512 1024
constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;
constexpr unsigned ALL = 0xffffffffu;

// Unsigned integers in the order of the floats. Adding zero turns -0 into +0, which must tie with it.
static __device__ __forceinline__ unsigned key_of(float x) {
  unsigned u = __float_as_uint(x + 0.f);
//! fault unflipped wrong when K<V: return u;
  return u >> 31 ? ~u : u | 0x80000000u;
}

static __device__ float block_max(float v, float *red) {
  for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(ALL, v, d));
  if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = v;
  __syncthreads();
  v = red[0];
//! fault hidden_count compile: for (int w = 1; w < warps; ++w) v = fmaxf(v, red[w]);
  for (int w = 1; w < WARPS; ++w) v = fmaxf(v, red[w]);
  __syncthreads();
  return v;
}

static __device__ float block_sum(float v, float *red) {
//! fault short_shuffle compile: for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(v, d);
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(ALL, v, d);
  if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0.f;
  for (int w = 0; w < WARPS; ++w) v += red[w];
  __syncthreads();
  return v;
}

// Logits with a key of at least `least`; a float holds every count up to 2^24.
static __device__ int count_from(const float *row, int V, unsigned least, float *red) {
  int n = 0;
  for (int i = threadIdx.x; i < V; i += THREADS) n += key_of(row[i]) >= least;
  return (int)block_sum((float)n, red);
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

static __global__ void __launch_bounds__(THREADS) sample_kernel(const float *logits, const float *rnd, int *token,
                                                                int V, int K) {
  __shared__ float red[WARPS];
  const float *row = logits + (size_t)blockIdx.x * V;
//! fault const_max compile: const float peak;
  float peak = row[0];
  for (int i = threadIdx.x; i < V; i += THREADS) peak = fmaxf(peak, row[i]);
  peak = block_max(peak, red);

  unsigned least = 0;
  for (int bit = 31; bit >= 0; --bit) {
    unsigned trial = least | 1u << bit;
    if (count_from(row, V, trial, red) >= K) least = trial;
  }
  // Of the logits equal to the threshold, the first ones by index fill the set.
  int ties = K - count_from(row, V, least + 1, red);
  int limit = find_crossing(V, ties - 0.5f, [&](int i) { return key_of(row[i]) == least ? 1.f : 0.f; }, red);

  auto mass = [&](int i) {
    float x = row[i];
    unsigned k = key_of(x);
//! fault all_ties wrong when K>=20&&K<V: return k >= least ? __expf(x - peak) : 0.f;
    return k > least || (k == least && i <= limit) ? __expf(x - peak) : 0.f;
  };
  float total = 0.f;
  for (int i = threadIdx.x; i < V; i += THREADS) total += mass(i);
  total = block_sum(total, red);
//! fault first_rnd wrong when B>=2 && K>=2: int found = find_crossing(V, rnd[0] * total, mass, red);
//! fault tail wrong when V%THREADS!=0: int found = find_crossing(V / THREADS * THREADS, rnd[blockIdx.x] * total, mass, red);
//! fault unscaled wrong when K>=10: int found = find_crossing(V, rnd[blockIdx.x], mass, red);
  int found = find_crossing(V, rnd[blockIdx.x] * total, mass, red);
  if (threadIdx.x == 0) token[blockIdx.x] = found;
}

extern "C" cudaError_t topk_sample(const float *logits, const float *rnd, int *token, int B, int V, int K,
                                   void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (B < 1 || V < 1 || K < 1 || K > V || K > 1024) return cudaErrorNotSupported;
//! fault one_short wrong when K>=10: sample_kernel<<<B, THREADS, 0, stream>>>(logits, rnd, token, V, K - 1);
  sample_kernel<<<B, THREADS, 0, stream>>>(logits, rnd, token, V, K);
  return cudaGetLastError();
}
