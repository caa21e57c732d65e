// A candidate's shared object.
#pragma once

#include "gpurun/ops.cuh"

namespace gpurun {

class Candidate {
 public:
  Candidate() = default;
  ~Candidate() { close(); }
  Candidate(const Candidate&) = delete;
  Candidate& operator=(const Candidate&) = delete;

  /// Loads the object and finds the op's launcher in it; throws Trouble when that fails.
  void open(const char* path, const char* op);
  /// Unloads it. Graphs of its kernels must be gone.
  void close();

  void* launcher() const { return launcher_; }
  /// <op>_workspace, or null.
  void* workspace() const { return workspace_; }

 private:
  void *handle_ = nullptr, *launcher_ = nullptr, *workspace_ = nullptr;
};

}  // namespace gpurun
