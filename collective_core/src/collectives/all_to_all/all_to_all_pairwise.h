// Every rank sends every other one its part, one after the other, each to a different one at a time.
#pragma once

#include <vector>

#include "collectives/context.h"
#include "schedule/schedule.h"

namespace ccore {

// out[r]: the part of send that goes to rank r; in[r]: where in recv what comes from rank r goes; both in bytes.
void all_to_all_pairwise(const Context& context, const void* send, const std::vector<Block>& out, void* recv,
                         const std::vector<Block>& in);

// Of `bytes` for each.
void all_to_all_pairwise(const Context& context, const void* send, void* recv, size_t bytes);

}  // namespace ccore
