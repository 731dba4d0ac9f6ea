// All-reduce over two complementary binary trees, each with half of the data: few steps for any number of ranks.
#pragma once

#include "collectives/context.h"

namespace ccore {

void all_reduce_double_tree(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                   cc_redop op);

}  // namespace ccore
