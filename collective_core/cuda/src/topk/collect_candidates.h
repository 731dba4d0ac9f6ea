// The second kernel of a selection: one pass over the vector.
#pragma once

#include "topk/select.h"

namespace ccore_cuda::topk {

struct List;

// Queues the kernel that lists what reaches the floor; `sum`: it also adds up magnitudes. Returns its number of blocks.
unsigned collect_candidates(const Input& in, bool sum, Board* board, const List& list, cudaStream_t stream);

}  // namespace ccore_cuda::topk
