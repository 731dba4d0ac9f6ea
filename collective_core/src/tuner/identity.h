// What makes a choice that was measured here good for another job.
#pragma once

#include <string>
#include <vector>

#include "topology/node.h"
#include "tuner/cache.h"

namespace ccore {

// This machine: its processor, the cores that the ranks of this host have, whether it is a virtual one, the speeds of its
// network interfaces and its kernel. One line.
std::string machine_text(int cores);
// What of `cpuinfo` (the text of /proc/cpuinfo) names the processor.
std::string processor_of(const std::string& cpuinfo);
bool is_virtual(const std::string& cpuinfo);

// The ranks of each node and how this rank reaches each other one: "4 ranks on 2 nodes: 2 2, tcp shm tcp".
std::string scale_text(const std::vector<Place>& places, const std::vector<std::string>& transports);

}  // namespace ccore
