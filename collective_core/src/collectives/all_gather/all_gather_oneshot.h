// Inside a node: every rank writes its block into its slots, and reads the others' there.
#pragma once

#include <vector>

#include "collectives/context.h"
#include "schedule/schedule.h"

namespace ccore {

// blocks: as of all_gather_ring(); context.arena is not null.
void all_gather_oneshot(const Context& context, const void* send, void* recv, const std::vector<Block>& blocks);

}  // namespace ccore
