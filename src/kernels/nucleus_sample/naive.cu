// Samples one token per row from the shortest sorted prefix of the vocabulary that holds a mass of top_p. A block per
// row finds the threshold bit by bit: each of 32 passes over the row sums the probabilities of the logits that are not
// below a trial threshold. Further passes settle ties and find where the running sum of what is kept passes rnd.
//! idea a block per row, threshold by bisection over full passes
//! says row_type: a value of type "const float *" cannot be used to initialize an entity of type "int"
//! says fast_name: identifier "__fexp" is undefined
//! says sum_args: too few arguments in function call
//! kernel grid=B block=THREADS smem=THREADS/8+24 regs=32 read=156*B*V once=4*B*V+8*B write=4*B inflight=THREADS*4*4 ops=B*V*39*10 sfu=B*V*37 chain=40*(cdiv(V,THREADS*4)*(LATL2+40)+240)
#include <cuda_runtime.h>

//! param 64 128 256 512 1024
constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;
constexpr unsigned ALL = 0xffffffffu;

// Unsigned integers in the order of the floats. Adding zero turns -0 into +0, which must tie with it.
static __device__ __forceinline__ unsigned key_of(float x) {
  unsigned u = __float_as_uint(x + 0.f);
  return u >> 31 ? ~u : u | 0x80000000u;
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

static __global__ void __launch_bounds__(THREADS) sample_kernel(const float *logits, const float *rnd,
                                                                const float *top_p, int *token, int V) {
  __shared__ float red[WARPS];
  const float *row = logits + (size_t)blockIdx.x * V;
//! fault row_type compile: int peak = row;
  float peak = row[0];
  for (int i = threadIdx.x; i < V; i += THREADS) peak = fmaxf(peak, row[i]);
  peak = block_max(peak, red);

  // Unnormalised mass of the logits with a key of at least `least`, and how many have exactly that key.
  int equal = 0;
  auto mass_from = [&](unsigned least) {
    float s = 0.f;
    equal = 0;
    for (int i = threadIdx.x; i < V; i += THREADS) {
      unsigned k = key_of(row[i]);
      equal += k == least;
//! fault no_peak wrong when V>=1000: if (k >= least) s += __expf(row[i]);
//! fault fast_name compile: if (k >= least) s += __fexp(row[i] - peak);
      if (k >= least) s += __expf(row[i] - peak);
    }
    return block_sum(s, red);
  };
//! fault top_row wrong when B>=2: float want = top_p[0] * mass_from(0);
  float want = top_p[blockIdx.x] * mass_from(0);
  unsigned least = 0;
  for (int bit = 31; bit >= 0; --bit) {
    unsigned trial = least | 1u << bit;
    if (mass_from(trial) >= want) least = trial;
  }
  // Of the logits equal to the threshold, as many as are needed, the first ones by index.
  float above = mass_from(least + 1), each = 0.f;
  mass_from(least);
  int ties = (int)block_sum((float)equal, red), limit = V - 1;
  for (int i = threadIdx.x; i < V; i += THREADS)
    if (key_of(row[i]) == least) each = __expf(row[i] - peak);
  each = block_max(each, red);
  int kept = each > 0.f ? min(ties, max(1, (int)ceilf((want - above) / each))) : ties;
  if (kept < ties)
    limit = find_crossing(V, kept - 0.5f, [&](int i) { return key_of(row[i]) == least ? 1.f : 0.f; }, red);

  auto mass = [&](int i) {
    float x = row[i];
    unsigned k = key_of(x);
//! fault no_crossing wrong when V>=1000: return k > least || (k == least && i > limit) ? __expf(x - peak) : 0.f;
    return k > least || (k == least && i <= limit) ? __expf(x - peak) : 0.f;
  };
  float total = 0.f;
  for (int i = threadIdx.x; i < V; i += THREADS) total += mass(i);
//! fault sum_args compile: total = block_sum(total);
  total = block_sum(total, red);
//! fault unscaled wrong when V>=1000: int found = find_crossing(V, rnd[blockIdx.x] * mass_from(0), mass, red);
//! fault tail wrong when V%THREADS!=0: int found = find_crossing(V / THREADS * THREADS, rnd[blockIdx.x] * total, mass, red);
  int found = find_crossing(V, rnd[blockIdx.x] * total, mass, red);
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
