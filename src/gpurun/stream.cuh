// The yardstick `stream`: the fastest of a small fixed set of our own kernels that move so many bytes with so much
// reading and writing, by 16-byte vectors.
#pragma once

#include "gpurun/timing.cuh"

namespace gpurun {

/// Median milliseconds of the fastest. `in` and `out` hold stream_bytes() of the counts, which are in bytes and are
/// rounded up to whole vectors; either may be 0, not both.
float stream_ms(Sampler&, void* in, int64_t bytes_read, void* out, int64_t bytes_written, cudaStream_t);
/// At least one vector.
size_t stream_bytes(int64_t bytes);

}  // namespace gpurun
