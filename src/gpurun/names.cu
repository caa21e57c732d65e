#include "gpurun/names.cuh"

#include <cstring>

#include "gpurun/error.cuh"
#include "gpurun/protocol.h"

namespace gpurun {
namespace {

const char* const dtypes[] = {"fp32", "fp16", "bf16", "fp8", "int8", "int4", "fp4"};
static_assert(sizeof dtypes / sizeof *dtypes == DTYPES, "a name for each dtype");

const char* const reasons[] = {"",          "left_stream",    "no_work",       "forbidden_node", "nonfinite",
                               "unwritten", "mismatch",       "low_precision", "input_changed",  "out_of_bounds",
                               "unstable",  "shape_specific", "stale"};
static_assert(sizeof reasons / sizeof *reasons == RUN_STALE + 1, "a name for each reason");

}  // namespace

const char* dtype_name(Dtype d) { return dtypes[d]; }

Dtype dtype_from_name(const char* name) {
  for (int d = 0; d < DTYPES; ++d)
    if (!strcmp(dtypes[d], name)) return (Dtype)d;
  trouble("no such dtype '%s'", name);
}

const char* family_name(Family f) { return f == F1 ? "F1" : f == F2 ? "F2" : f == F3 ? "F3" : "F2b"; }

const char* reason_name(int reason) { return reasons[reason]; }

std::string shape_name(const Shape& shape) {
  std::string s;
  for (int64_t axis : shape.v)
    if (axis) s += (s.empty() ? "" : ",") + std::to_string(axis);
  return s;
}

}  // namespace gpurun
