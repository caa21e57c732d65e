#include "gpurun/sampling.cuh"

#include <cmath>

namespace gpurun {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr double kMass = 1e-4;        // by which the mass before a kept token may pass top_p
constexpr float kMost = 0x1.fffffep-1f;  // the largest rnd

// All functions of a block take part with all its threads, and begin behind a barrier where they use `part` anew.

__device__ double warp_sum(double x) {
  for (int o = 16; o > 0; o /= 2) x += __shfl_xor_sync(0xffffffffu, x, o);
  return x;
}

/// The same for all threads; `part` has an element per warp.
__device__ double block_sum(double x, double* part) {
  x = warp_sum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  x = 0;
  for (int w = 0; w < kWarps; ++w) x += part[w];
  return x;
}

__device__ float block_max(float x, double* part) {
  for (int o = 16; o > 0; o /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  double most = part[0];
  for (int w = 1; w < kWarps; ++w) most = fmax(most, part[w]);
  return (float)most;
}

/// Sum of f(i) over [0, n).
template <class F>
__device__ double row_sum(int64_t n, double* part, F f) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) sum += f(i);
  return block_sum(sum, part);
}

/// Least i at which the running sum of weight(0), weight(1), … passes `target`. A segment per warp is summed, and the
/// search goes on in the one that holds the crossing. Sums of the levels differ in their last bits: a crossing that
/// the finer level does not find is at its last weight.
template <class F>
__device__ int64_t crossing(int64_t n, double target, double* part, F weight) {
  int64_t lo = 0, hi = n;
  double before = 0;
  while (hi - lo > 1) {
    const int64_t step = (hi - lo + kWarps - 1) / kWarps, from = lo + threadIdx.x / 32 * step;
    const int64_t to = from + step < hi ? from + step : hi;
    double sum = 0;
    for (int64_t i = from + threadIdx.x % 32; i < to; i += 32) sum += weight(i);
    sum = warp_sum(sum);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    int at = 0;
    double start = before, running = before;
    for (int w = 0; w < kWarps; ++w) {
      if (part[w] <= 0) continue;
      at = w;
      start = running;
      running += part[w];
      if (running > target) break;
    }
    before = start;
    lo += at * step;
    if (lo + step < hi) hi = lo + step;
  }
  return lo;
}

/// What the kernels ask of a row.
struct Row {
  const float* x;
  double peak;
  uint32_t least;
  int64_t limit;
  __device__ double mass(int64_t i) const { return exp((double)x[i] - peak); }
  __device__ bool kept(int64_t i) const {
    const uint32_t k = order_key(x[i]);
    return k > least || (k == least && i <= limit);
  }
  __device__ double kept_mass(int64_t i) const { return kept(i) ? mass(i) : 0; }
};

__device__ Row row_of(const Sampling& in, const Choice& c, int64_t b) {
  return {in.logits + b * in.V, c.peak, c.least, c.limit};
}

/// A block per row. Found four bits at a time, the threshold is the largest key that has enough weight, of tokens or
/// of mass, at or above it.
template <bool BY_MASS>
__global__ void __launch_bounds__(kThreads) choose_kernel(Sampling in, Choice* out) {
  __shared__ double part[kWarps];
  const int64_t b = blockIdx.x, V = in.V;
  Row row = {in.logits + b * V, 0, 0, V};
  float most = -INFINITY;
  for (int64_t i = threadIdx.x; i < V; i += kThreads) most = fmaxf(most, row.x[i]);
  row.peak = block_max(most, part);
  const double all = row_sum(V, part, [&](int64_t i) { return row.mass(i); });
  const double want = BY_MASS ? (double)in.top_p[b] * all : (double)in.K;
  const auto weight = [&](int64_t i) { return BY_MASS ? row.mass(i) : 1.0; };

  uint32_t least = 0;
  for (int shift = 28; shift >= 0; shift -= 4) {
    double reach[15] = {};
    for (int64_t i = threadIdx.x; i < V; i += kThreads) {
      const uint32_t k = order_key(row.x[i]);
      if (k < least) continue;
      const double w = weight(i);
#pragma unroll
      for (uint32_t j = 0; j < 15; ++j)
        if (k >= least + ((j + 1) << shift)) reach[j] += w;
    }
    uint32_t digit = 0;
#pragma unroll
    for (uint32_t j = 0; j < 15; ++j)
      if (block_sum(reach[j], part) >= want) digit = j + 1;
    least += digit << shift;
  }

  // Of the logits equal to the threshold, as many as it takes, the first ones by index.
  const double above = row_sum(V, part, [&](int64_t i) { return order_key(row.x[i]) > least ? weight(i) : 0; });
  const double ties = row_sum(V, part, [&](int64_t i) { return order_key(row.x[i]) == least ? 1.0 : 0; });
  const float threshold = __uint_as_float(least >> 31 ? least & 0x7FFFFFFFu : ~least);
  const double each = BY_MASS ? exp((double)threshold - row.peak) : 1;
  double need = ceil((want - above) / each);
  need = !(need >= 1) ? 1 : need > ties ? ties : need;
  row.limit = crossing(V, need - 0.5, part, [&](int64_t i) { return order_key(row.x[i]) == least ? 1.0 : 0; });
  row.least = least;

  const double total = row_sum(V, part, [&](int64_t i) { return row.kept_mass(i); });
  const int64_t token = crossing(V, (double)in.rnd[b] * total, part, [&](int64_t i) { return row.kept_mass(i); });
  // A prefix that ends within fp32's error of top_p may as well be one token shorter or longer.
  const double end = above + need * each, near = 1e-5 * all;
  const bool open = BY_MASS && (end - want < near || want - (end - each) < near);
  if (threadIdx.x == 0)
    out[b] = {row.peak, all, total, open ? each / total : 0, least, (int32_t)row.limit, (int32_t)token, 0};
}

__global__ void __launch_bounds__(kThreads)
aim_kernel(Sampling in, float* rnd, int tensor, uint64_t seed, int trials, const Choice* choice) {
  __shared__ double part[kWarps];
  __shared__ unsigned long long first;
  const int64_t b = blockIdx.x, V = in.V;
  const int kind = (int)(row_turn(seed, in.B, b) % 4);
  if (kind == 3) {
    // One of as many strata as rows are looked at in all trials.
    const double u = gen_unit(gen_hash(seed, tensor, (uint64_t)b));
    const double at = ((double)(b + in.B * trial_of(seed)) + u) / (double)(in.B * trials);
    if (threadIdx.x == 0) rnd[b] = fminf((float)at, kMost);
    return;
  }
  const Choice c = choice[b];
  const Row row = row_of(in, c, b);
  // Where no token has that mass, the row's first and last of any mass, and its most likely one.
  const double floor = 10 * in.eps * c.total;
  const double bar = floor <= 1 ? floor : kind == 2 ? 1 : 0;
  if (threadIdx.x == 0) first = ~0ull;
  __syncthreads();
  unsigned long long mine = ~0ull;
  for (int64_t i = threadIdx.x; i < V; i += kThreads) {
    const double m = row.kept_mass(i);
    if (!(m > 0 && m >= bar)) continue;
    // The smallest is the last in sorted order.
    const unsigned long long back = (unsigned long long)(V - 1 - i);
    const unsigned long long rank =
        kind == 0 ? (unsigned long long)i : kind == 1 ? back : (unsigned long long)order_key(row.x[i]) << 32 | back;
    if (rank < mine) mine = rank;
  }
  if (mine != ~0ull) atomicMin(&first, mine);
  __syncthreads();
  if (first == ~0ull) return;
  const int64_t t = kind == 0 ? (int64_t)first : V - 1 - (int64_t)(first & 0xFFFFFFFFu);
  const double before = row_sum(t, part, [&](int64_t i) { return row.kept_mass(i); });
  if (threadIdx.x == 0) rnd[b] = fminf((float)((before + row.mass(t) / 2) / c.total), kMost);
}

/// What is found of a row's token.
struct Finding {
  double low, high;  // its interval
  double before;     // mass before it in sorted order
  float rnd;
  int32_t token;
  int32_t in_range, kept;
};

__global__ void __launch_bounds__(kThreads)
judge_kernel(Sampling in, const int* token, const Choice* choice, Finding* out, int64_t first) {
  __shared__ double part[kWarps];
  const int64_t b = first + blockIdx.x, V = in.V, t = token[b];
  Finding f = {0, 0, 0, in.rnd[b], (int32_t)t, t >= 0 && t < V, 0};
  if (f.in_range) {
    const Choice c = choice[b];
    const Row row = row_of(in, c, b);
    f.kept = row.kept(t);
    if (in.top_p) {
      const uint32_t key = order_key(row.x[t]);
      f.before = row_sum(V, part, [&](int64_t i) {
        const uint32_t k = order_key(row.x[i]);
        return k > key || (k == key && i < t) ? row.mass(i) : 0;
      }) / c.all;
      f.kept = f.kept || f.before < (double)in.top_p[b] + kMass;
    }
    f.low = row_sum(t, part, [&](int64_t i) { return row.kept_mass(i); }) / c.total;
    f.high = f.low + row.kept_mass(t) / c.total;
    // The room that the test gives beyond eps.
    f.low -= c.slack;
    f.high += c.slack;
  }
  if (threadIdx.x == 0) out[blockIdx.x] = f;
}

__global__ void __launch_bounds__(256) draw_kernel(float* rnd, int64_t B, uint64_t seed, int tensor) {
  for (int64_t b = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; b < B; b += (int64_t)gridDim.x * blockDim.x) {
    const double u = gen_unit(gen_hash(seed, tensor, (uint64_t)b));
    rnd[b] = fminf((float)(((double)b + u) / (double)B), kMost);
  }
}

__global__ void __launch_bounds__(256) answer_kernel(int* token, const Choice* choice, int64_t B) {
  for (int64_t b = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; b < B; b += (int64_t)gridDim.x * blockDim.x)
    token[b] = choice[b].token;
}

}  // namespace

void fill_draws(float* rnd, int64_t B, uint64_t seed, int tensor, cudaStream_t s) {
  draw_kernel<<<grid_for(B), 256, 0, s>>>(rnd, B, seed, tensor);
  check_launch("draws");
}

void choose(const Sampling& in, Choice* out, cudaStream_t s) {
  if (in.top_p) choose_kernel<true><<<(int)in.B, kThreads, 0, s>>>(in, out);
  else choose_kernel<false><<<(int)in.B, kThreads, 0, s>>>(in, out);
  check_launch("sampling reference");
}

void aim_draws(const Sampling& in, float* rnd, int tensor, uint64_t seed, Choice* scratch, cudaStream_t s) {
  choose(in, scratch, s);
  aim_kernel<<<(int)in.B, kThreads, 0, s>>>(in, rnd, tensor, seed, sampling_trials(in.B), scratch);
  check_launch("aim");
}

Verdict judge_tokens(const Sampling& in, const int* token, const Choice* choice, void* scratch, cudaStream_t s) {
  constexpr int64_t most = kScratchBytes / sizeof(Finding);
  std::vector<Finding> rows((size_t)in.B);
  for (int64_t first = 0; first < in.B; first += most) {
    const int64_t n = in.B - first < most ? in.B - first : most;
    judge_kernel<<<(int)n, kThreads, 0, s>>>(in, token, choice, (Finding*)scratch, first);
    check_launch("judge tokens");
    const size_t bytes = (size_t)n * sizeof(Finding);
    check(cudaMemcpyAsync(&rows[(size_t)first], scratch, bytes, cudaMemcpyDeviceToHost, s), "judge tokens");
    check(cudaStreamSynchronize(s), "judge tokens");
  }

  Verdict v = pass();
  int64_t unwritten = -1, wrong = -1, count = 0;
  for (int64_t b = 0; b < in.B; ++b) {
    const Finding& f = rows[(size_t)b];
    if ((uint32_t)f.token == poison_bits(E_I32)) {
      if (unwritten < 0) unwritten = b;
      continue;
    }
    const double away = fmax(0.0, fmax(f.low - f.rnd, f.rnd - f.high));
    if (f.in_range) v.max_abs = fmax(v.max_abs, away);
    if (f.in_range && f.kept && away <= in.eps) continue;
    if (wrong < 0) wrong = b;
    ++count;
  }
  v.max_rel = v.max_abs;  // probabilities are relative to 1
  if (unwritten >= 0) {
    v.reason = RUN_UNWRITTEN;
    snprintf(v.text, sizeof v.text, "token[%lld]", (long long)unwritten);
  } else if (wrong >= 0) {
    const Finding& f = rows[(size_t)wrong];
    v.reason = RUN_MISMATCH;
    const int len = snprintf(v.text, sizeof v.text, "token[%lld] is %d, ", (long long)wrong, f.token);
    char* text = v.text + len;
    const size_t room = sizeof v.text - (size_t)len;
    const long long rest = count, of = in.B;
    if (!f.in_range) snprintf(text, room, "of %lld, %lld of %lld", (long long)in.V, rest, of);
    else if (!f.kept && in.top_p) snprintf(text, room, "behind a mass of %.6g, %lld of %lld", f.before, rest, of);
    else if (!f.kept) snprintf(text, room, "not kept, %lld of %lld", rest, of);
    else snprintf(text, room, "rnd %.7g not in [%.7g, %.7g], %lld of %lld", f.rnd, f.low, f.high, rest, of);
  }
  return v;
}

void answer_tokens(int* token, const Choice* choice, int64_t B, cudaStream_t s) {
  answer_kernel<<<grid_for(B), 256, 0, s>>>(token, choice, B);
  check_launch("answer");
}

double certify_choice(const Choice& got, const double* row, int64_t last, double total, int64_t token) {
  if (got.least != order_key((float)row[last]) || got.limit != last || got.token != token) return 1;
  return std::fabs(got.total - total) / total;
}

}  // namespace gpurun
