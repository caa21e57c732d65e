// Names of what requests and answers number.
#pragma once

#include <string>

#include "gpurun/ops.cuh"

namespace gpurun {

/// "fp16".
const char* dtype_name(Dtype);
/// Throws Trouble for an unknown name.
Dtype dtype_from_name(const char* name);
/// "F1".
const char* family_name(Family);
/// A run_reason's name in verify.reason; "" for none.
const char* reason_name(int reason);
/// "64,4096".
std::string shape_name(const Shape&);

}  // namespace gpurun
