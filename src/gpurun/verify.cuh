// A candidate at one shape: placed in the arena, captured, verified, timed, and verified again.
#pragma once

#include <memory>

#include "gpurun/candidate.cuh"
#include "gpurun/graph.cuh"
#include "gpurun/guard.cuh"
#include "gpurun/protocol.h"
#include "gpurun/timing.cuh"

namespace gpurun {

/// What every run works with; all of it in the arena. Made anew when the arena is reserved anew.
struct Rig {
  Arena& arena;
  cudaStream_t stream;
  Watch* watch;
  void* scratch;             // kScratchBytes
  void *overwritten, *read;  // kFlushBytes each

  /// Reserves `bytes` beyond what it takes for itself.
  Rig(Arena& arena, cudaStream_t stream, size_t bytes);
};

/// One run of a graph on fresh inputs of a family and seed: reference first, then hashes, guards and poison, the run,
/// and the judgement in its order. Synchronises.
Verdict verified_run(const Rig&, const OpModule&, const Placed&, void* ref, const Graph&, Family, uint64_t seed);

class Session {
 public:
  /// Loads the request's object, places its buffers (the workspace filled with zeros), and captures the launcher.
  /// Throws Trouble, Refusal or CudaError.
  Session(Arena&, cudaStream_t, const run_request&);
  ~Session();

  /// True for a request of the same object, op, dtype and shape.
  bool serves(const run_request&) const;
  /// All families, two neighbouring shapes. Fills in the answer's errors; throws Refusal.
  void verify(uint64_t seed, run_answer*);
  /// Samples into the answer; three random ones of them are judged, and another run after them. Only after verify();
  /// throws Trouble without, Refusal with RUN_STALE.
  void time(const run_request&, run_answer*);
  const KernelFacts& facts() const { return graph_.facts(); }

  /// For what else is to be timed while the session stays: arena behind its workspace is free to use, since inputs
  /// and outputs are filled before every run.
  const Rig& rig() const { return *rig_; }
  size_t free_mark() const { return free_mark_; }

 private:
  size_t workspace_of(const Instance&) const;
  /// False where the launcher does not support the shape.
  bool capture(const Placed&, Graph*) const;
  /// A verified run of a family's trial, telling *worst of it; throws Refusal.
  void run(const Placed&, void* ref, const Graph&, Family, uint64_t seed, Verdict* worst) const;
  void neighbour(const Shape&, uint64_t seed, Verdict* worst) const;

  run_request request_;
  const OpModule* op_;
  Dtype dtype_;
  Candidate candidate_;  // before the graphs: they go first
  std::unique_ptr<Rig> rig_;
  Placed main_ = {};
  void* ref_ = nullptr;
  Shape neighbours_[2];
  int beside_ = 0;  // how many of them are legal
  size_t free_mark_ = 0;
  Graph graph_;
  bool passed_ = false;
};

}  // namespace gpurun
