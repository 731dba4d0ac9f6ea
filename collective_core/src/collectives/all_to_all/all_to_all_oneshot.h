// Inside a node: every rank writes the parts of the others into its slots, and reads its own in theirs.
#pragma once

#include "collectives/context.h"

namespace ccore {

// bytes: of the part of one rank for another; context.arena is not null.
void all_to_all_oneshot(const Context& context, const void* send, void* recv, size_t bytes);

}  // namespace ccore
