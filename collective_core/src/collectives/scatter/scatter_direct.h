// The root sends every rank its part.
#pragma once

#include "collectives/context.h"

namespace ccore {

// bytes: of one part; send (all ranks' parts) is read on the root only.
void scatter_direct(const Context& context, const void* send, void* recv, size_t bytes, int root);

}  // namespace ccore
