// Inside a node: the root writes all parts into its slots, and the others read theirs there.
#pragma once

#include "collectives/context.h"

namespace ccore {

// As of scatter_direct(); context.arena is not null.
void scatter_oneshot(const Context& context, const void* send, void* recv, size_t bytes, int root);

}  // namespace ccore
