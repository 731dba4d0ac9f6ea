// Inputs whose copies and reductions are exact in every type, and the count of results that differ from them.
#pragma once

#include <cstddef>

#include "collective_core/collective_core.h"

namespace ccore_perf {

struct Inputs {
  cc_dtype dtype;
  cc_redop op;   // read only if the collective reduces
  bool reduces;  // else the contributions are copied, and all values tell ranks apart
  int nranks;
};

// Instead of a rank: the reduction of what all ranks contribute.
constexpr int kReduction = -1;

// Writes elements [first, first + count) of what `rank` contributes.
void fill(void* data, size_t first, size_t count, const Inputs& inputs, int rank);
// How many of the count elements at data are not elements [first, first + count) of what `rank` contributes.
size_t count_wrong(const void* data, size_t first, size_t count, const Inputs& inputs, int rank);

}  // namespace ccore_perf
