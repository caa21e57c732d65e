// What is done around a run so that it cannot cheat by its surroundings: guards beside buffers, hashes of inputs,
// poison in outputs and in shared memory. Everything enqueues on the stream.
#pragma once

#include "gpurun/arena.cuh"

namespace gpurun {

/// Device-side results, read back together.
struct Watch {
  unsigned long long hash_before[kMaxBuffers + 1], hash_after[kMaxBuffers + 1];
  unsigned damaged[2 * (kMaxBuffers + 1)];  // guard elements that changed, before and after each region
  unsigned arrived;                         // the scribble kernel's count of blocks
};

/// Patterns into all guards: signalling NaNs of the region's type; for integers, values that are no index.
void write_guards(const Regions&, cudaStream_t);
/// Counts what differs from them into watch->damaged.
void check_guards(const Regions&, Watch* watch, cudaStream_t);
/// One hash of all bytes per region into out[].
void hash_regions(const Regions&, unsigned long long* out, cudaStream_t);
/// Poison into all regions.
void poison_regions(const Regions&, cudaStream_t);
/// Fills all shared memory of all SMs with NaNs.
void scribble_shared(Watch* watch, cudaStream_t);

}  // namespace gpurun
