// The driver's name and the SM clock, from NVML where it is installed.
#pragma once

namespace gpurun {

/// Of the present CUDA device, in MHz; -1 not known.
int sm_clock_mhz();
/// "580.65.06"; "" not known. The text lives as long as the process.
const char* driver_version();

}  // namespace gpurun
