// Two shots without slots, for data in registered memory (transport/shm/windows.h).
#pragma once

#include <cstddef>
#include <vector>

#include "collective_core/collective_core.h"
#include "collectives/all_reduce/offers.h"
#include "collectives/context.h"
#include "collectives/mutual_access.h"

namespace ccore {

// Smaller data goes through the slots, registered or not.
constexpr size_t kLeastRegisteredBytes = 64 * 1024;

// Each rank reduces its block of the others' inputs where they lie, and writes it into everyone's output. False, and
// nothing is done: on some rank a buffer is not registered; which of them it is, only that rank need know. Called by all
// ranks or none; context.arena and context.windows are not null.
bool all_reduce_registered(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                           cc_redop op);

// This rank's part of it, where all offers are in windows: its block of all inputs into all outputs.
void reduce_in_windows(const Context& context, const MutualAccess& access, const std::vector<Offer>& offers, size_t count,
                       cc_dtype dtype, cc_redop op);

}  // namespace ccore
