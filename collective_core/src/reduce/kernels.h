// Element-wise reduction kernels.
#pragma once

#include <cstddef>

#include "collective_core/collective_core.h"
#include "common/simd.h"

namespace ccore {

// out[i] = a[i] op b[i]; out may be a or b. No alignment is required. divisor is for the last hop of an
// average.
using ReduceFunction = void (*)(void* out, const void* a, const void* b, size_t count, unsigned divisor);

// For every hop but the last; an average adds.
ReduceFunction reduce_function(cc_dtype dtype, cc_redop op);
// For the hop that completes a block: an average adds, then divides by `divisor`.
ReduceFunction last_reduce_function(cc_dtype dtype, cc_redop op);
// The same at a level that the CPU offers; last: for the hop that completes a block. All levels give the same bits,
// except that where both operands are NaN, either one's payload may stay.
ReduceFunction reduce_function_at(SimdLevel level, cc_dtype dtype, cc_redop op, bool last);

// By the vector instructions of one level, made from vector_kernels.inc. Null where the level has none of its own and
// the scalar one serves: integer averages, for no such CPU divides vectors of integers. last: for the hop that
// completes a block.
ReduceFunction reduce_function_avx2(cc_dtype dtype, cc_redop op, bool last);
ReduceFunction reduce_function_avx512(cc_dtype dtype, cc_redop op, bool last);
ReduceFunction reduce_function_neon(cc_dtype dtype, cc_redop op, bool last);

}  // namespace ccore
