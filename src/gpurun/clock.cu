#include "gpurun/clock.cuh"

#include <cuda_runtime.h>
#include <dlfcn.h>

namespace gpurun {
namespace {

/// The few entries of libnvidia-ml.so.1 that are wanted; its handle stays open.
struct Nvml {
  void* device = nullptr;
  int (*clock_info)(void* device, int type, unsigned* mhz) = nullptr;
  char driver[96] = "";

  Nvml() {
    void* lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) return;
    const auto init = (int (*)())dlsym(lib, "nvmlInit_v2");
    const auto by_bus = (int (*)(const char*, void**))dlsym(lib, "nvmlDeviceGetHandleByPciBusId_v2");
    const auto version = (int (*)(char*, unsigned))dlsym(lib, "nvmlSystemGetDriverVersion");
    if (!init || init() != 0) return;
    if (version && version(driver, sizeof driver) != 0) driver[0] = 0;
    int ordinal;
    char bus[32];
    if (by_bus && cudaGetDevice(&ordinal) == cudaSuccess &&
        cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal) == cudaSuccess && by_bus(bus, &device) == 0)
      clock_info = (int (*)(void*, int, unsigned*))dlsym(lib, "nvmlDeviceGetClockInfo");
  }
};

Nvml& nvml() {
  static Nvml n;
  return n;
}

}  // namespace

int sm_clock_mhz() {
  constexpr int kSm = 1;  // NVML_CLOCK_SM
  unsigned mhz;
  return nvml().clock_info && nvml().clock_info(nvml().device, kSm, &mhz) == 0 ? (int)mhz : -1;
}

const char* driver_version() { return nvml().driver; }

}  // namespace gpurun
