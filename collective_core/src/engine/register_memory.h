// Registered memory: every rank tells the others where its memory is, and maps theirs if all can.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/communicator.h"

namespace ccore {

// Collective. bytes > 0 and may differ between ranks. *direct: whether all ranks can read and write each other's.
// Returns the number of the registration, the same on all ranks.
uint64_t register_memory(Communicator* communicator, void* memory, size_t bytes, int64_t timeout_ms, bool* direct);
// Collective, with the same number on all ranks. When it returns, no rank maps the memory of another any more. Throws
// CC_ERROR_INVALID_ARGUMENT if nothing is registered by that number.
void deregister_memory(Communicator* communicator, uint64_t number, int64_t timeout_ms);

}  // namespace ccore
