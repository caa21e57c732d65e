// nucleus_sample: axes B V; logits[B,V], rnd[B], top_p[B] -> token[B].
#include <cmath>

#include "gpurun/cref_sampling.h"
#include "gpurun/sampling.cuh"

namespace gpurun {
namespace {

enum { LOGITS, RND, TOP_P, TOKEN };

int layout(const Shape& shape, Dtype, Buffer* out) {
  const int64_t B = shape.v[0], V = shape.v[1];
  out[LOGITS] = {"logits", Role::input, E_F32, B * V};
  out[RND] = {"rnd", Role::input, E_F32, B};
  out[TOP_P] = {"top_p", Role::input, E_F32, B};
  out[TOKEN] = {"token", Role::output, E_I32, B};
  return 4;
}

Sampling sampling(const Instance& in) {
  return {(const float*)in.ptr[LOGITS], (const float*)in.ptr[RND], (const float*)in.ptr[TOP_P], in.shape.v[0],
          in.shape.v[1], 0, 1e-4};
}

unsigned families(const Shape&, Dtype) {
  return family_bit(F1) | family_bit(F2) | family_bit(F3) | family_bit(F2B);
}

int trials(const Shape& shape, Dtype, Family) { return sampling_trials(shape.v[0]); }

constexpr int kThreads = 1024;

/// F2: three tokens, the last and two others, get logits by which they hold .5, .3 and .1 of the mass. A block per row.
__global__ void __launch_bounds__(kThreads) plant_kernel(float* logits, int64_t V, uint64_t seed) {
  __shared__ double part[kThreads];
  const int64_t b = blockIdx.x;
  float* row = logits + b * V;
  const bool three = V >= 4;  // and something beside them
  const uint64_t h = gen_hash(seed, LOGITS + 32, (uint64_t)b);
  int64_t second = -1, third = -1;
  if (three) {
    second = gen_below(h, (uint32_t)(V - 1));
    third = (second + 1 + gen_below(h << 32, (uint32_t)(V - 2))) % (V - 1);
  }
  double sum = 0;
  for (int64_t i = threadIdx.x; i < V - 1; i += kThreads)
    if (i != second && i != third) sum += exp((double)row[i]);
  part[threadIdx.x] = sum;
  for (int o = kThreads / 2; o > 0; o /= 2) {
    __syncthreads();
    if (threadIdx.x < o) part[threadIdx.x] += part[threadIdx.x + o];
  }
  if (threadIdx.x) return;
  // All others may be -Inf in a short row.
  const double tenth = part[0] > 0 ? part[0] : 1;
  row[V - 1] = (float)log(5 * tenth);
  if (!three) return;
  row[second] = (float)log(3 * tenth);
  row[third] = (float)log(tenth);
}

/// F2b: sorts a row in place, falling or rising by its turn: bitonic, in the form where all comparisons put the larger
/// one on the same side. What lies beyond the row would stay where it is.
__global__ void __launch_bounds__(kThreads) sort_kernel(float* logits, int64_t B, int64_t V, uint64_t seed) {
  float* row = logits + blockIdx.x * V;
  const bool rising = row_turn(seed, B, blockIdx.x) / 4 % 2;
  const auto order = [&](int64_t i, int64_t j) {
    const float a = row[i], b = row[j];
    if (rising ? a > b : a < b) row[i] = b, row[j] = a;
  };
  for (int64_t size = 2; size < 2 * V; size *= 2) {
    // The two halves of a block are sorted: the first step compares them from both ends.
    for (int64_t half = size / 2, stride = half; stride > 0; stride /= 2) {
      for (int64_t k = threadIdx.x;; k += kThreads) {
        const int64_t at = k & (stride - 1), start = (k - at) * 2;
        if (start >= V) break;
        const int64_t i = start + at, j = stride == half ? start + 2 * stride - 1 - at : i + stride;
        if (j < V) order(i, j);
      }
      __syncthreads();
    }
  }
}

struct Constant {
  float value;
  __device__ float operator()(int64_t) const { return value; }
};

/// U[0.3, 0.95), but not so close to a sum of F2's three masses that it is a matter of rounding what is kept.
struct Spread {
  uint64_t seed;
  __device__ float operator()(int64_t b) const {
    const float p = gen_uniform(gen_hash(seed, TOP_P, (uint64_t)b), 0.3f, 0.95f);
    for (float edge : {0.5f, 0.8f, 0.9f})
      if (fabsf(p - edge) < 1e-3f) return edge + 1e-3f;
    return p;
  }
};

void fill(const Instance& in, Family f, uint64_t seed, cudaStream_t s) {
  const int64_t B = in.shape.v[0], V = in.shape.v[1];
  float* logits = (float*)in.ptr[LOGITS];
  if (f == F2) fill_with(logits, E_F32, B * V, RoughLogits{seed, LOGITS, V, 0.f}, s);
  else if (f == F3) fill_with(logits, E_F32, B * V, HighLogits{seed, LOGITS, B, V}, s);
  else fill_with(logits, E_F32, B * V, Normal{seed, LOGITS, 2.f, 0.f}, s);
  if (f == F2) plant_kernel<<<(int)B, kThreads, 0, s>>>(logits, V, seed);
  if (f == F2B) sort_kernel<<<(int)B, kThreads, 0, s>>>(logits, B, V, seed);
  check_launch("nucleus_sample fill");
  fill_draws((float*)in.ptr[RND], B, seed, RND, s);
  if (f == F2) fill_with(in.ptr[TOP_P], E_F32, B, Spread{seed}, s);
  else fill_with(in.ptr[TOP_P], E_F32, B, Constant{0.9f}, s);
}

size_t reference_bytes(const Shape& shape, Dtype) { return sizeof(Choice) * shape.v[0]; }

void aim(const Instance& in, void* ref, Family, uint64_t seed, cudaStream_t s) {
  aim_draws(sampling(in), (float*)in.ptr[RND], RND, seed, (Choice*)ref, s);
}

void reference(const Instance& in, void* ref, Family, uint64_t, cudaStream_t s) {
  choose(sampling(in), (Choice*)ref, s);
}

Verdict judge(const Instance& in, const void* ref, Family, uint64_t, void* scratch, cudaStream_t s) {
  return judge_tokens(sampling(in), (const int*)in.ptr[TOKEN], (const Choice*)ref, scratch, s);
}

cudaError_t call(void* fn, const Instance& in, void* workspace, size_t workspace_bytes, cudaStream_t s) {
  using Launcher = cudaError_t(const float*, const float*, const float*, int*, int, int, void*, size_t, cudaStream_t);
  return ((Launcher*)fn)((const float*)in.ptr[LOGITS], (const float*)in.ptr[RND], (const float*)in.ptr[TOP_P],
                         (int*)in.ptr[TOKEN], (int)in.shape.v[0], (int)in.shape.v[1], workspace, workspace_bytes, s);
}

size_t workspace(void* fn, const Instance& in) {
  using Size = size_t(int, int);
  return fn ? ((Size*)fn)((int)in.shape.v[0], (int)in.shape.v[1]) : 0;
}

int neighbours(const Shape& shape, Dtype, Shape out[2]) {
  const int64_t B = shape.v[0], V = shape.v[1];
  out[0] = Shape{{B, V + 1}};
  out[1] = Shape{{B + 1, V > 1 ? V - 1 : V}};
  return 2;
}

void small(Dtype, Shape out[3]) {
  out[0] = Shape{{3, 77}};
  out[1] = Shape{{1, 1000}};
  out[2] = Shape{{20, 501}};
}

double certify(const Instance& host, const void* ref, Family f, uint64_t seed) {
  const std::vector<double> logits = widen(host, LOGITS), rnd = widen(host, RND), top_p = widen(host, TOP_P);
  const int64_t B = host.shape.v[0], V = host.shape.v[1];
  std::vector<char> kept((size_t)V);
  double worst = 0;
  for (int64_t b = 0; b < B; ++b) {
    const double* row = &logits[(size_t)(b * V)];
    const double sign = row_turn(seed, B, b) / 4 % 2 ? 1 : -1;
    for (int64_t i = 1; f == F2B && i < V; ++i)
      if (sign * row[i] < sign * row[i - 1]) return 1;  // not sorted
    double total;
    cref_keep_nucleus(row, V, top_p[(size_t)b], kept.data());
    const int64_t token = cref_draw(row, V, kept.data(), rnd[(size_t)b], &total);
    const int64_t last = cref_last_kept(row, V, kept.data());
    worst = fmax(worst, certify_choice(((const Choice*)ref)[b], row, last, total, token));
  }
  return worst;
}

void answer(const Instance& in, const void* ref, Family, uint64_t, cudaStream_t s) {
  answer_tokens((int*)in.ptr[TOKEN], (const Choice*)ref, in.shape.v[0], s);
}

}  // namespace

extern const OpModule ops_nucleus_sample[] = {
    {"nucleus_sample", layout, families, fill, reference_bytes, reference, judge, call, workspace, neighbours, trials,
     aim, 1u << FP32, small, certify, answer},
    {}};

}  // namespace gpurun
