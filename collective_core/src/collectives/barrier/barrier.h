// Barrier: no rank returns before all have called it.
#pragma once

#include "collectives/context.h"

namespace ccore {

// ceil(log2 p) rounds of one byte.
void barrier_dissemination(const Context& context);

}  // namespace ccore
