// What topk_sample and nucleus_sample share: the kept set of each row in double, random numbers
// aimed at its edges, and the test of a token by its interval of the cumulative sum.
#pragma once

#include <cstring>

#include "gpurun/common.cuh"

namespace gpurun {

/// A problem in device memory: logits[B,V], rnd[B]. Kept are the K largest of a row or, where top_p (of B) is not
/// null, the shortest sorted prefix of that mass.
struct Sampling {
  const float* logits;
  const float* rnd;
  const float* top_p;
  int64_t B, V, K;
  double eps;  // of the test
};

/// A row's kept set: logits with a key above `least`, and of those with that key the indices up to `limit`.
struct Choice {
  double peak;   // the largest logit
  double all;    // sum of exp(logit - peak) over the row
  double total;  // and over the kept set
  double slack;  // of the test, beyond eps
  uint32_t least;
  int32_t limit;
  int32_t token;  // the answer
  int32_t unused;
};

/// Unsigned integers in the order of the logits; -0 and +0 are one.
__host__ __device__ inline uint32_t order_key(float x) {
  const float y = x == 0 ? 0.f : x;
  uint32_t u;
  memcpy(&u, &y, sizeof u);
  return u >> 31 ? ~u : u | 0x80000000u;
}

/// Runs that are to be made so that 16 rows at least are looked at; between them each row, or its neighbours, has been
/// at every kind of edge.
inline int sampling_trials(int64_t B) { return B < 16 ? (int)((16 + B - 1) / B) : 1; }

/// Which row of the sequence of kinds of rows this one is: kinds of aim by turn % 4, of logits by turn / 4 % 2.
__host__ __device__ inline uint64_t row_turn(uint64_t seed, int64_t B, int64_t b) {
  return (uint64_t)b + (B < 16 ? (uint64_t)trial_of(seed) : seed >> 4);
}

// --- logits -----------------------------------------------------------------------------------------------------

/// n(2) rounded to quarters, a tenth of them -Inf, and the last of each row `last`.
struct RoughLogits {
  uint64_t seed;
  int tensor;
  int64_t V;
  float last;
  __device__ float operator()(int64_t i) const {
    if (i % V == V - 1) return last;
    if (gen_below(gen_hash(seed, tensor + 16, (uint64_t)i), 10) == 0) return -INFINITY;
    return rintf(gen_normal(gen_hash(seed, tensor, (uint64_t)i)) * 8.f) * 0.25f;
  }
};

/// n(1) + 200, or flat, by the row's turn.
struct HighLogits {
  uint64_t seed;
  int tensor;
  int64_t B, V;
  __device__ float operator()(int64_t i) const {
    if (row_turn(seed, B, i / V) / 4 % 2) return 200.f;
    return gen_add(200.f, gen_normal(gen_hash(seed, tensor, (uint64_t)i)));
  }
};

/// rnd[b]: one draw from each of B strata of [0, 1).
void fill_draws(float* rnd, int64_t B, uint64_t seed, int tensor, cudaStream_t s);

// --- the reference and the test ---------------------------------------------------------------------------------

/// A choice per row, of which K or top_p, logits and rnd are the question.
void choose(const Sampling& in, Choice* out, cudaStream_t s);
/// Puts rnd in the middle of the interval of the row's first, last or smallest kept token of mass >= 10 eps, or draws
/// it, by the row's turn. `scratch` holds B choices.
void aim_draws(const Sampling& in, float* rnd, int tensor, uint64_t seed, Choice* scratch, cudaStream_t s);
/// A token passes when it is kept (by mass: to within 1e-4) and rnd lies in its interval to within eps. The errors
/// told are the largest distance of rnd from it. Synchronises.
Verdict judge_tokens(const Sampling& in, const int* token, const Choice* choice, void* scratch, cudaStream_t s);
/// token[b] = choice[b].token.
void answer_tokens(int* token, const Choice* choice, int64_t B, cudaStream_t s);

/// For certify: what C finds in row b, by the token that is last in sorted order, the mass kept and the answer.
/// Returns the relative error of the mass, 1 where a token differs.
double certify_choice(const Choice& got, const double* row, int64_t last, double total, int64_t token);

}  // namespace gpurun
