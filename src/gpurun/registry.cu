#include <cstring>

#include "gpurun/ops.cuh"

namespace gpurun {

// The build writes the list from the names of the check_<problem>.cu files.
#define GPURUN_PROBLEM(problem) extern const OpModule ops_##problem[];
#include "gpurun_problems.inc"
#undef GPURUN_PROBLEM

namespace {

const OpModule* const tables[] = {
#define GPURUN_PROBLEM(problem) ops_##problem,
#include "gpurun_problems.inc"
#undef GPURUN_PROBLEM
};

}  // namespace

const OpModule* op_at(int i) {
  for (const OpModule* table : tables)
    for (const OpModule* op = table; op->name; ++op)
      if (i-- == 0) return op;
  return nullptr;
}

const OpModule* find_op(const char* name) {
  for (int i = 0;; ++i) {
    const OpModule* op = op_at(i);
    if (!op || !strcmp(op->name, name)) return op;
  }
}

}  // namespace gpurun
