// The NVLinks of a GPU, from NVML, which is found at run time. NVML sees GPUs that CUDA_VISIBLE_DEVICES hides.
#pragma once

#include <cstdint>
#include <vector>

namespace ccore_cuda {

struct OwnNvlinks {
  bool is_known;
  int to_switches;
  std::vector<int> to_peers;  // in the order of `peers`
};

// The links of the GPU at the PCI address `bus` to those at the addresses `peers` (bus_of()), as far as they are up.
OwnNvlinks read_nvlinks(uint64_t bus, const std::vector<uint64_t>& peers);

}  // namespace ccore_cuda
