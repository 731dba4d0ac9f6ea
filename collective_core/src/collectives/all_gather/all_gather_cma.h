// Much data inside a node: every rank has the kernel copy the blocks of the others ("cross memory attach").
#pragma once

#include <vector>

#include "collectives/context.h"
#include "schedule/schedule.h"

namespace ccore {

// blocks: as of all_gather_ring(); context.arena and context.cross_memory are not null. Through slots where the kernel
// does not copy.
void all_gather_cma(const Context& context, const void* send, void* recv, const std::vector<Block>& blocks);

}  // namespace ccore
