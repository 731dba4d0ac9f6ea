// Every rank sends every other one its part.
#pragma once

#include <vector>

#include "collectives/context.h"
#include "schedule/schedule.h"

namespace ccore {

// out[r]: the part of send that goes to rank r; in[r]: where in recv what comes from rank r goes; both in bytes. All
// pairs move at once: of parts of different sizes, one that is large or a rank that is late holds up no other pair.
void all_to_all_pairwise(const Context& context, const void* send, const std::vector<Block>& out, void* recv,
                         const std::vector<Block>& in);

// Of `bytes` for each: one after the other, each rank to a different one at a time.
void all_to_all_pairwise(const Context& context, const void* send, void* recv, size_t bytes);

}  // namespace ccore
