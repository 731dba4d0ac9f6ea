// broadcast by a named algorithm.
#pragma once

#include "collectives/context.h"

namespace ccore {

// The algorithm is one of algorithms_of(Kind::broadcast).
void broadcast_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t bytes, int root);

}  // namespace ccore
