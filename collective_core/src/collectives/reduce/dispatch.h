// reduce by a named algorithm.
#pragma once

#include "collectives/context.h"

namespace ccore {

// The algorithm is one of algorithms_of(Kind::reduce).
void reduce_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t count,
               cc_dtype dtype, cc_redop op, int root);

}  // namespace ccore
