#include "gpurun/verify.cuh"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <thread>
#include <vector>

#include "gpurun/clock.cuh"
#include "gpurun/common.cuh"
#include "gpurun/names.cuh"
#include "gpurun/stream.cuh"

namespace gpurun {
namespace {

/// The k-th seed that a request's seed stands for, for a trial.
uint64_t derived(uint64_t seed, uint64_t k, int trial) { return (gen_hash(seed, 0x5D, k) & ~15ull) | (uint64_t)trial; }

int trials(const OpModule& op, const Shape& shape, Dtype dtype, Family f) {
  const int n = op.trials ? op.trials(shape, dtype, f) : 1;
  if (n < 1 || n > 16) trouble("%s: %d trials", op.name, n);
  return n;
}

/// Synchronises.
Watch read_watch(const Rig& rig) {
  Watch w;
  check(cudaMemcpyAsync(&w, rig.watch, sizeof w, cudaMemcpyDeviceToHost, rig.stream), "read watch");
  check(cudaStreamSynchronize(rig.stream), "read watch");
  return w;
}

/// Hashes and guards after a run; RUN_INPUT_CHANGED comes before RUN_OUT_OF_BOUNDS. Synchronises.
Verdict surroundings(const Rig& rig, const Placed& p) {
  hash_regions(regions_of(p.in, Role::input), rig.watch->hash_after, rig.stream);
  check_guards(guarded_regions(p), rig.watch, rig.stream);
  const Watch w = read_watch(rig);
  int k = 0;
  for (int i = 0; i < p.in.n; ++i) {
    if (p.in.buffer[i].role != Role::input) continue;
    if (w.hash_before[k] != w.hash_after[k]) return fail(RUN_INPUT_CHANGED, "%s is not as it was", p.in.buffer[i].name);
    ++k;
  }
  const Regions all = guarded_regions(p);
  for (int i = 0; i < 2 * all.n; ++i)
    if (w.damaged[i])
      return fail(RUN_OUT_OF_BOUNDS, "%u elements %s %s", w.damaged[i], i % 2 ? "behind" : "before",
                  i / 2 < p.in.n ? p.in.buffer[i / 2].name : "the workspace");
  return pass();
}

}  // namespace

Rig::Rig(Arena& a, cudaStream_t s, size_t bytes) : arena(a), stream(s) {
  arena.reserve(Arena::taken(sizeof(Watch)) + Arena::taken(kScratchBytes) + 2 * kFlushBytes + bytes);
  watch = (Watch*)arena.take(sizeof(Watch));
  scratch = arena.take(kScratchBytes);
  overwritten = arena.take(kFlushBytes);
  read = arena.take(kFlushBytes);
}

Verdict verified_run(const Rig& rig, const OpModule& op, const Placed& p, void* ref, const Graph& graph, Family f,
                     uint64_t seed) {
  const cudaStream_t s = rig.stream;
  write_guards(guarded_regions(p), s);
  op.fill(p.in, f, seed, s);
  if (op.aim) op.aim(p.in, ref, f, seed, s);
  // Before the run, lest a candidate write the question anew.
  op.reference(p.in, ref, f, seed, s);
  hash_regions(regions_of(p.in, Role::input), rig.watch->hash_before, s);
  poison_regions(regions_of(p.in, Role::output), s);
  scribble_shared(rig.watch, s);
  check(cudaStreamSynchronize(s), "reference");  // what fails from here on is the candidate's
  graph.launch(s);
  check_run(cudaStreamSynchronize(s));
  const Verdict v = op.judge(p.in, ref, f, seed, rig.scratch, s);
  return both(v, surroundings(rig, p));
}

size_t Session::workspace_of(const Instance& in) const {
  constexpr size_t kMost = 8ull << 30;  // as for a tensor
  const size_t n = op_->workspace(candidate_.workspace(), in);
  (void)cudaGetLastError();  // what the candidate's code left there is not ours to stumble on
  if (n > kMost) refuse(RUN_LAUNCH_ERROR, REASON_NONE, "a workspace of %zu bytes", n);
  return n;
}

bool Session::capture(const Placed& p, Graph* graph) const {
  const cudaStream_t s = rig_->stream;
  if (p.workspace) check(cudaMemsetAsync(p.workspace, 0, p.workspace_bytes, s), "clear workspace");
  op_->fill(p.in, F1, 0, s);
  poison_regions(regions_of(p.in, Role::output), s);
  const Regions all = guarded_regions(p);
  hash_regions(all, rig_->watch->hash_before, s);
  check(cudaStreamSynchronize(s), "fill");
  return graph->capture(
      [&](cudaStream_t c) { return op_->call(candidate_.launcher(), p.in, p.workspace, p.workspace_bytes, c); },
      [&] {
        hash_regions(all, rig_->watch->hash_after, s);
        const Watch w = read_watch(*rig_);
        return !std::equal(w.hash_before, w.hash_before + all.n, w.hash_after);
      });
}

Session::Session(Arena& arena, cudaStream_t s, const run_request& r) : request_(r) {
  op_ = find_op(r.op);
  if (!op_) trouble("no such op '%s'", r.op);
  dtype_ = dtype_from_name(r.dtype);
  static_assert(RUN_MAX_AXES == sizeof(Shape::v) / sizeof(Shape::v[0]), "as many axes");
  Shape shape;
  std::copy(r.shape, r.shape + RUN_MAX_AXES, shape.v);
  main_.in = lay_out(*op_, shape, dtype_);
  candidate_.open(r.object, r.op);

  // The main shape's workspace stays for as long as the session does. Behind it lies one shape's reference, buffers
  // and, for a neighbour, workspace at a time: all of these are filled before every run.
  main_.workspace_bytes = workspace_of(main_.in);
  size_t overlay = Arena::taken(op_->reference_bytes(shape, dtype_)) + buffer_bytes(main_.in);
  beside_ = op_->neighbours ? op_->neighbours(shape, dtype_, neighbours_) : 0;
  for (int i = 0; i < beside_; ++i) {
    const Instance in = lay_out(*op_, neighbours_[i], dtype_);
    overlay = std::max(overlay, Arena::taken(op_->reference_bytes(neighbours_[i], dtype_)) + buffer_bytes(in) +
                                    Arena::taken_guarded(workspace_of(in)));
  }
  overlay = std::max(overlay, Arena::taken(stream_bytes(r.bytes_read)) + Arena::taken(stream_bytes(r.bytes_written)));
  rig_.reset(new Rig(arena, s, Arena::taken_guarded(main_.workspace_bytes) + overlay));
  if (main_.workspace_bytes) main_.workspace = arena.take_guarded(main_.workspace_bytes);
  free_mark_ = arena.mark();
  ref_ = arena.take(op_->reference_bytes(shape, dtype_));
  place_buffers(arena, &main_.in);
  if (!capture(main_, &graph_)) refuse(RUN_LAUNCH_ERROR, REASON_NONE, "%s", cudaGetErrorName(cudaErrorNotSupported));
}

Session::~Session() = default;

bool Session::serves(const run_request& r) const {
  return !strcmp(r.object, request_.object) && !strcmp(r.op, request_.op) && !strcmp(r.dtype, request_.dtype) &&
         std::equal(r.shape, r.shape + RUN_MAX_AXES, request_.shape);
}

void Session::run(const Placed& p, void* ref, const Graph& graph, Family f, uint64_t seed, Verdict* worst) const {
  const Verdict v = verified_run(*rig_, *op_, p, ref, graph, f, seed);
  if (v.reason) {
    *worst = v;
    refuse(RUN_FAILED, v.reason, "%s: %s", family_name(f), v.text);
  }
  if (f == F1 && &p == &main_) *worst = both(*worst, v);
}

void Session::verify(uint64_t seed, run_answer* answer) {
  passed_ = false;
  const Shape& shape = main_.in.shape;
  const unsigned families = op_->families(shape, dtype_);
  // Errors are told of F1, whose values are of ordinary size, or of what failed: there are none where something is no
  // number.
  struct Tell {
    run_answer* answer;
    Verdict worst = pass();
    ~Tell() {
      const bool known = worst.reason != RUN_NONFINITE;
      answer->max_abs_err = known ? worst.max_abs : -1;
      answer->max_rel_err = known ? worst.max_rel : -1;
    }
  } tell{answer};
  uint64_t k = 1;
  const auto family = [&](Family f) {
    for (int t = 0, n = trials(*op_, shape, dtype_, f); t < n; ++t)
      run(main_, ref_, graph_, f, derived(seed, k++, t), &tell.worst);
  };
  family(F1);
  family(F1);
  for (Family f : {F2, F3, F2B})
    if (families & family_bit(f)) family(f);
  // The same bits as in the first run: two answers that both pass differ by no more than twice the bound.
  const Verdict again = verified_run(*rig_, *op_, main_, ref_, graph_, F1, derived(seed, 1, 0));
  if (again.reason) {
    tell.worst = again;
    refuse(RUN_FAILED, RUN_UNSTABLE, "F1 again: %s: %s", reason_name(again.reason), again.text);
  }
  for (int i = 0; i < beside_; ++i) neighbour(neighbours_[i], derived(seed, k++, 0), &tell.worst);
  passed_ = true;
}

void Session::neighbour(const Shape& shape, uint64_t seed, Verdict* worst) const {
  Arena& arena = rig_->arena;
  const size_t mark = arena.mark();
  arena.rewind(free_mark_);
  try {
    Placed p = {};
    p.in = lay_out(*op_, shape, dtype_);
    void* ref = arena.take(op_->reference_bytes(shape, dtype_));
    place_buffers(arena, &p.in);
    p.workspace_bytes = workspace_of(p.in);
    if (p.workspace_bytes) p.workspace = arena.take_guarded(p.workspace_bytes);
    Graph graph;
    const unsigned families = op_->families(shape, dtype_);
    if (capture(p, &graph))
      for (Family f : {F1, F2})
        if (families & family_bit(f))
          for (int t = 0, n = trials(*op_, shape, dtype_, f); t < n; ++t)
            run(p, ref, graph, f, derived(seed, (uint64_t)f, t), worst);
  } catch (const Refusal& r) {
    const std::string at = shape_name(shape);
    if (r.status != RUN_FAILED) refuse(r.status, r.reason, "at %s: %s", at.c_str(), r.text);
    refuse(RUN_FAILED, RUN_SHAPE_SPECIFIC, "at %s: %s: %s", at.c_str(), reason_name(r.reason), r.text);
  }
  arena.rewind(mark);
}

void Session::time(const run_request& r, run_answer* answer) {
  if (!passed_) trouble("not verified");
  passed_ = false;
  const cudaStream_t s = rig_->stream;
  const int most = std::min(r.max_samples > 0 ? r.max_samples : 50, (int32_t)RUN_MAX_SAMPLES);
  const uint64_t base = derived(r.seed, ~0ull, 0);
  const Regions inputs = regions_of(main_.in, Role::input), outputs = regions_of(main_.in, Role::output);
  Sampler sampler(s, rig_->overwritten, rig_->read);
  write_guards(guarded_regions(main_), s);

  // Three samples are judged. Which, is drawn when the first has told how many there may be.
  std::vector<int> judged;
  uint64_t seed = 0;
  const auto before = [&](int i, bool judge) {
    seed = derived(base, (uint64_t)i, 0);
    op_->fill(main_.in, F1, seed, s);
    if (judge) {
      op_->reference(main_.in, ref_, F1, seed, s);
      hash_regions(inputs, rig_->watch->hash_before, s);
    }
    poison_regions(outputs, s);
  };
  const auto after = [&](int i, bool judge) {
    if (!judge) return;
    const Verdict v = both(op_->judge(main_.in, ref_, F1, seed, rig_->scratch, s), surroundings(*rig_, main_));
    if (v.reason) refuse(RUN_FAILED, RUN_STALE, "timed run %d: %s: %s", i + 1, reason_name(v.reason), v.text);
  };
  const auto chosen = [&](int i) { return std::find(judged.begin(), judged.end(), i) != judged.end(); };
  int seen = 0;

  if (r.gap_ms > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(r.gap_ms));
  answer->sm_mhz_before = sm_clock_mhz();
  answer->samples = sampler.samples(
      graph_, most, r.budget_ms, answer->ms, [&](int i) { before(i, chosen(i)); },
      [&](int i) {
        if (i == 0) {
          const double fit = answer->ms[0] > 0 ? r.budget_ms / answer->ms[0] : most;
          const int expected = std::min((double)most, std::max(fit, 5.0));
          for (uint64_t k = 0; (int)judged.size() < std::min(3, expected - 1); ++k) {
            const int pick = 1 + (int)gen_below(gen_hash(base, 1, k), (uint32_t)(expected - 1));
            if (!chosen(pick)) judged.push_back(pick);
          }
        }
        seen += chosen(i);
        after(i, chosen(i));
      });
  answer->sm_mhz_after = sm_clock_mhz();
  // The draw may lie beyond the last sample.
  for (int i = answer->samples; seen < 3; ++i, ++seen) {
    sampler.once(graph_, [&] { before(i, true); });
    after(i, true);
  }
  const Verdict last = verified_run(*rig_, *op_, main_, ref_, graph_, F1, derived(base, ~0ull, 0));
  if (last.reason) refuse(RUN_FAILED, RUN_STALE, "after timing: %s: %s", reason_name(last.reason), last.text);
  passed_ = true;
}

}  // namespace gpurun
