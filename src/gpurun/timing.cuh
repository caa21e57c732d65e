// One way of timing for everything: candidates, the empty kernel, the yardstick.
#pragma once

#include <functional>

#include "gpurun/graph.cuh"

namespace gpurun {

constexpr size_t kFlushBytes = 256ull << 20;

/// Takes samples in one stream: what `before` enqueues, 256 MB overwritten, another 256 MB read (so that L2 holds
/// clean lines of nobody's), event, graph, event. The host waits for each sample's end, but enqueues a sample whole:
/// the flush outlasts the launch of what follows it, so the graph is waiting on the device when its turn comes.
class Sampler {
 public:
  /// `overwritten` and `read` hold kFlushBytes each; both are filled here.
  Sampler(cudaStream_t, void* overwritten, void* read);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  /// Milliseconds of one launch.
  float once(const Graph&, const std::function<void()>& before);

  /// Up to `most` samples into ms[], or until they add up to budget_ms, but at least five (or `most`). before(i) and
  /// after(i) frame sample i. Returns how many.
  int samples(const Graph&, int most, double budget_ms, float* ms, const std::function<void(int)>& before,
              const std::function<void(int)>& after);

 private:
  cudaStream_t stream_;
  void *overwritten_, *read_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  unsigned round_ = 0;
};

/// Of n > 0 numbers; the mean of the middle two where n is even.
float median(const float* ms, int n);

/// Median time of a graph with one empty kernel.
float empty_kernel_ms(Sampler&);

}  // namespace gpurun
