// All-reduce over as many spanning trees as the links are best used by, each with its share of the data.
#pragma once

#include "collectives/context.h"

namespace ccore {

// Over the trees of context.chooser, if it has any; else over a star from every rank.
void all_reduce_n_trees(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op);

}  // namespace ccore
