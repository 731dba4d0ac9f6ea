// How ranks of one host meet without a port: an abstract unix socket named after user and job.
#pragma once

#include <cstdint>
#include <string>

#include "collective_core/collective_core.h"

namespace ccore_perf {

// Rank 0 makes the id and hands it to the others, who must be processes of the same user. Throws LaunchError,
// which names the ranks that did not come.
cc_unique_id share_id_locally(int rank, int size, const std::string& job, int64_t timeout_ms);

}  // namespace ccore_perf
