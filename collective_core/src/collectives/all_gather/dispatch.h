// all_gather by a named algorithm.
#pragma once

#include <vector>

#include "collectives/context.h"
#include "schedule/schedule.h"

namespace ccore {

// The algorithm is one of algorithms_of(Kind::all_gather).
void all_gather_by(Algorithm algorithm, const Context& context, const void* send, void* recv,
                   const std::vector<Block>& blocks);

}  // namespace ccore
