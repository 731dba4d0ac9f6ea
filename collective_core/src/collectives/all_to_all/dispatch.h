// all_to_all by a named algorithm.
#pragma once

#include "collectives/context.h"

namespace ccore {

// The algorithm is one of algorithms_of(Kind::all_to_all).
void all_to_all_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t bytes);

}  // namespace ccore
