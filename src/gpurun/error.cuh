// How the worker's parts fail: a refused CUDA call, trouble of the worker's own, or a candidate that is refused. All
// three are thrown and reach the request loop, which turns them into an answer.
#pragma once

#include <cuda_runtime.h>

#include <cstdarg>
#include <cstdio>

namespace gpurun {

/// A CUDA call failed; what: the step, lower case. `candidate`: it told of a candidate's run, else of our own work.
struct CudaError {
  cudaError_t code;
  const char* what;
  bool candidate;
};

/// No memory, a refused object, a request that makes no sense: never the candidate's fault.
struct Trouble {
  char text[256];
};

/// The candidate fails: a status and a reason of protocol.h.
struct Refusal {
  int status, reason;
  char text[256];
};

inline void check(cudaError_t e, const char* what) {
  if (e != cudaSuccess) throw CudaError{e, what, false};
}

/// For a wait that ends a candidate's run.
inline void check_run(cudaError_t e) {
  if (e != cudaSuccess) throw CudaError{e, "run", true};
}

/// After a kernel launch of ours.
inline void check_launch(const char* what) { check(cudaGetLastError(), what); }

[[noreturn]] __attribute__((format(printf, 1, 2))) inline void trouble(const char* fmt, ...) {
  Trouble t;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(t.text, sizeof t.text, fmt, ap);
  va_end(ap);
  throw t;
}

[[noreturn]] __attribute__((format(printf, 3, 4))) inline void refuse(int status, int reason, const char* fmt, ...) {
  Refusal r = {status, reason, ""};
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(r.text, sizeof r.text, fmt, ap);
  va_end(ap);
  throw r;
}

}  // namespace gpurun
