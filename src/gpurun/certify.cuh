// `bench-worker --certify`: that what judges candidates is itself right.
#pragma once

namespace gpurun {

/// For each op (or the one named), dtype, small shape, family and trial: inputs filled on the GPU, the fp64 GPU
/// reference against plain C in double, and judge against outputs that are best possible, poisoned, NaN, zero. Prints
/// a line of TAP each on stdout; returns how many are not ok. Throws CudaError and Trouble.
int certify(const char* op_or_null);

}  // namespace gpurun
