#include "gpurun/candidate.cuh"

#include <dlfcn.h>

#include "gpurun/error.cuh"

namespace gpurun {

void Candidate::open(const char* path, const char* op) {
  close();
  if (!path[0] || !(handle_ = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
    trouble("cannot load: %s", path[0] ? dlerror() : "no object");
  launcher_ = dlsym(handle_, op);
  if (!launcher_) trouble("%s defines no %s", path, op);
  char name[64];
  snprintf(name, sizeof name, "%s_workspace", op);
  workspace_ = dlsym(handle_, name);
}

// Never unloaded: the runtime's unregistering of a candidate's code races with its lazy loading, and a worker is
// replaced after a few hundred candidates anyway.
void Candidate::close() {
  handle_ = launcher_ = workspace_ = nullptr;
}

}  // namespace gpurun
