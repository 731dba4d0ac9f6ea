// Where a GPU is, in one line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/nvlinks.h"
#include "topology/pci.h"

namespace ccore {

// "0000:18:00.0: NUMA node 0, 18 NVLinks to switches; mlx5_0 PIX, eth0 SYS": NICs with the nearest first.
std::string describe(const PciPlace& gpu, const std::optional<NvLinks>& links, const std::vector<Nic>& nics);

}  // namespace ccore
