// What NVML reports of the NVLinks of a GPU. The library is loaded when it is asked for, and need not exist.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ccore {

struct NvLinks {
  int to_switches = 0;
  // Addresses of other GPUs as in sysfs, one for each link to them.
  std::vector<std::string> to_gpus;
};

// nullopt: there is no NVML, or it does not know the GPU.
std::optional<NvLinks> nvlinks(const std::string& pci_address);

}  // namespace ccore
