// What this library did in a process: CCORE_NCCL_REPORT, and cc_nccl_report().
#pragma once

#include <string>

#include "collective_core/collective_core_cuda_tuning.h"

namespace ccore_nccl {

// A communicator that came up: how its ranks reach each other, or why NCCL serves it alone.
void report_communicator(int ranks, int rank, const std::string& path, const std::string& why);

// What the tuner chose for a class of calls.
void report_choice(const cc_cuda_choice& choice);

// Why a communicator has no tuner, although it is on.
void report_without_tuner(const std::string& why);

// One line of JSON.
std::string report();

}  // namespace ccore_nccl
