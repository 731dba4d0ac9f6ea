// Runs any all-reduce schedule on the user's memory.
#pragma once

#include "collectives/context.h"
#include "schedule/schedule.h"

namespace ccore {

// Of what goes up and down trees: small enough that a chunk is soon passed on, large enough that its bytes take longer
// than its latency.
constexpr size_t kTreeChunkBytes = 128 * 1024;

// Partial results live in recv, which may be send; no memory beside these.
void all_reduce_scheduled(const Context& context, const Schedule& schedule, const void* send, void* recv,
                          size_t count, cc_dtype dtype, cc_redop op);

}  // namespace ccore
