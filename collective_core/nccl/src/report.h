// What this library did in a process: CCORE_NCCL_REPORT, and cc_nccl_report().
#pragma once

#include <string>

namespace ccore_nccl {

// A communicator that came up: how its ranks reach each other, or why NCCL serves it alone.
void report_communicator(int ranks, int rank, const std::string& path, const std::string& why);

// One line of JSON.
std::string report();

}  // namespace ccore_nccl
