// topk_sample: axes B V K; logits[B,V], rnd[B] -> token[B].
#include "gpurun/cref_sampling.h"
#include "gpurun/sampling.cuh"

namespace gpurun {
namespace {

enum { LOGITS, RND, TOKEN };

int layout(const Shape& shape, Dtype, Buffer* out) {
  const int64_t B = shape.v[0], V = shape.v[1];
  out[LOGITS] = {"logits", Role::input, E_F32, B * V};
  out[RND] = {"rnd", Role::input, E_F32, B};
  out[TOKEN] = {"token", Role::output, E_I32, B};
  return 3;
}

Sampling sampling(const Instance& in) {
  return {(const float*)in.ptr[LOGITS], (const float*)in.ptr[RND], nullptr, in.shape.v[0], in.shape.v[1], in.shape.v[2],
          1e-5};
}

unsigned families(const Shape&, Dtype) { return family_bit(F1) | family_bit(F2) | family_bit(F3); }

int trials(const Shape& shape, Dtype, Family) { return sampling_trials(shape.v[0]); }

void fill(const Instance& in, Family f, uint64_t seed, cudaStream_t s) {
  const int64_t B = in.shape.v[0], V = in.shape.v[1];
  // F2's last logit is above all others, which end at 7: the end of the vocabulary counts.
  if (f == F2) fill_with(in.ptr[LOGITS], E_F32, B * V, RoughLogits{seed, LOGITS, V, 8.f}, s);
  else if (f == F3) fill_with(in.ptr[LOGITS], E_F32, B * V, HighLogits{seed, LOGITS, B, V}, s);
  else fill_with(in.ptr[LOGITS], E_F32, B * V, Normal{seed, LOGITS, 2.f, 0.f}, s);
  fill_draws((float*)in.ptr[RND], B, seed, RND, s);
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
  using Launcher = cudaError_t(const float*, const float*, int*, int, int, int, void*, size_t, cudaStream_t);
  const int64_t* v = in.shape.v;
  return ((Launcher*)fn)((const float*)in.ptr[LOGITS], (const float*)in.ptr[RND], (int*)in.ptr[TOKEN], (int)v[0],
                         (int)v[1], (int)v[2], workspace, workspace_bytes, s);
}

size_t workspace(void* fn, const Instance& in) {
  using Size = size_t(int, int, int);
  const int64_t* v = in.shape.v;
  return fn ? ((Size*)fn)((int)v[0], (int)v[1], (int)v[2]) : 0;
}

/// Another token; then another row with another one kept.
int neighbours(const Shape& shape, Dtype, Shape out[2]) {
  const int64_t B = shape.v[0], V = shape.v[1], K = shape.v[2];
  out[0] = Shape{{B, V + 1, K}};
  if (K < V && K < 1024) out[1] = Shape{{B + 1, V, K + 1}};
  else if (K > 1) out[1] = Shape{{B + 1, V, K - 1}};
  else return 1;
  return 2;
}

/// All kept, some of them without mass; one kept; neither.
void small(Dtype, Shape out[3]) {
  out[0] = Shape{{3, 33, 33}};
  out[1] = Shape{{1, 1000, 1}};
  out[2] = Shape{{20, 501, 64}};
}

double certify(const Instance& host, const void* ref, Family, uint64_t) {
  const std::vector<double> logits = widen(host, LOGITS), rnd = widen(host, RND);
  const int64_t B = host.shape.v[0], V = host.shape.v[1];
  std::vector<char> kept((size_t)V);
  double worst = 0;
  for (int64_t b = 0; b < B; ++b) {
    const double* row = &logits[(size_t)(b * V)];
    double total;
    cref_keep_topk(row, V, host.shape.v[2], kept.data());
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

extern const OpModule ops_topk_sample[] = {
    {"topk_sample", layout, families, fill, reference_bytes, reference, judge, call, workspace, neighbours, trials, aim,
     1u << FP32, small, certify, answer},
    {}};

}  // namespace gpurun
