// Inputs whose reduction is exact in every type, and the count of results that differ from it.
#pragma once

#include <cstddef>

#include "collective_core/collective_core.h"

namespace ccore_perf {

// Fills this rank's contribution.
void fill_input(void* data, size_t count, cc_dtype dtype, cc_redop op, int rank, int nranks);
// Elements of an all-reduce result that are not exactly what the inputs give.
size_t count_wrong(const void* result, size_t count, cc_dtype dtype, cc_redop op, int nranks);

}  // namespace ccore_perf
