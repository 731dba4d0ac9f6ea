// Element-wise reduction kernels.
#pragma once

#include <cstddef>

#include "collective_core/collective_core.h"

namespace ccore {

// out[i] = a[i] op b[i]; out may be a or b. No alignment is required. divisor is for the last hop of an
// average.
using ReduceFunction = void (*)(void* out, const void* a, const void* b, size_t count, unsigned divisor);

// For every hop but the last; an average adds.
ReduceFunction reduce_function(cc_dtype dtype, cc_redop op);
// For the hop that completes a block: an average adds, then divides by `divisor`.
ReduceFunction last_reduce_function(cc_dtype dtype, cc_redop op);

}  // namespace ccore
