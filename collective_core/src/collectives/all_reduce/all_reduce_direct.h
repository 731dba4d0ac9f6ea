// All-reduce in which the owner of each block receives it from all ranks and sends it back: two rounds.
#pragma once

#include "collectives/context.h"

namespace ccore {

void all_reduce_direct(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                   cc_redop op);

}  // namespace ccore
