// Gives NCCL's new communicators a handle of collective_core, where all ranks can.
#pragma once

#include <vector>

#include "nccl_abi.h"

namespace ccore_nccl {

// Whether CCORE_NCCL leaves this library on.
bool enabled();

// Called by every rank with the communicators that its thread has just made. Those that cannot be served, on any of their
// ranks, stay with NCCL alone. Fails only if the ranks could not agree.
Result attach(const std::vector<Comm>& made);

}  // namespace ccore_nccl
