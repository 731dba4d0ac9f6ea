// Every rank sends its part straight to the root.
#pragma once

#include "collectives/context.h"

namespace ccore {

// bytes: of one part; recv (all ranks' parts) is written on the root only.
void gather_direct(const Context& context, const void* send, void* recv, size_t bytes, int root);

}  // namespace ccore
