// VirtualMemory of the CUDA driver.
#pragma once

#include <memory>

#include "memory/virtual_memory.h"

namespace ccore_cuda {

// Maps for the device. Null if the driver or the device cannot export memory of cuMemCreate as file descriptors.
std::unique_ptr<VirtualMemory> make_driver_memory(int device);

}  // namespace ccore_cuda
