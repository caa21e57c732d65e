// A launcher's work, captured once: the same instantiated graph is verified, timed and verified again, so no host
// code of a candidate runs while the clock does.
#pragma once

#include <cuda_runtime.h>

#include <functional>

namespace gpurun {

/// Of the kernel with the most threads in its grid; local_bytes is the largest of all. -1 not known.
struct KernelFacts {
  int registers = -1, smem_bytes = -1, local_bytes = -1, threads = -1;
  int kernels = 0;
};

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&& o) noexcept : exec_(o.exec_), facts_(o.facts_) { o.exec_ = nullptr; }
  Graph& operator=(Graph&&) noexcept;

  /// Captures what `launch` enqueues on the stream that it is given, and judges the nodes. `strayed` (or null) is
  /// asked when all is quiet again: true where memory has changed, which only work outside the capture can have done.
  /// Throws Refusal with RUN_LAUNCH_ERROR when launch returns an error (reason 0; text: the error's name), else with
  /// RUN_LEFT_STREAM, RUN_NO_WORK, RUN_FORBIDDEN_NODE. Returns false, the graph left empty, when launch returned
  /// cudaErrorNotSupported.
  bool capture(const std::function<cudaError_t(cudaStream_t)>& launch, const std::function<bool()>& strayed);
  /// Enqueues it. An error that the launch itself returns is a Refusal with RUN_LAUNCH_ERROR.
  void launch(cudaStream_t) const;
  const KernelFacts& facts() const { return facts_; }

 private:
  cudaGraphExec_t exec_ = nullptr;
  KernelFacts facts_;
};

}  // namespace gpurun
