// Dissemination barrier: ceil(log2 p) rounds of one byte.
#pragma once

#include "collectives/context.h"

namespace ccore {

void barrier_dissemination(const Context& context);

}  // namespace ccore
