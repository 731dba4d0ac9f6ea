// Much data inside a node, reduced through the slot areas: each rank reduces its block of every chunk, reading the
// others' parts where they wrote them, and puts the sums back there for those who want them.
#pragma once

#include "collectives/context.h"
#include "schedule/schedule.h"

namespace ccore {

// recv is written on the root, or on every rank if there is none (kNone). context.arena is not null.
void fold_in_slots(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                   int root = kNone);

}  // namespace ccore
