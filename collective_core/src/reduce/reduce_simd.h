// The reductions by vector instructions, made once per level from vector_kernels.inc.
#pragma once

#include "reduce/kernels.h"

namespace ccore {

// Null where the level has none of its own and the scalar one serves: integer averages, for no such CPU divides
// vectors of integers. last: for the hop that completes a block.
ReduceFunction reduce_function_avx2(cc_dtype dtype, cc_redop op, bool last);
ReduceFunction reduce_function_avx512(cc_dtype dtype, cc_redop op, bool last);

}  // namespace ccore
