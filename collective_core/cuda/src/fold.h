// The reduction of several arrays in device memory into one, in a fixed order, so that all ranks get the same bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "collective_core/collective_core.h"

namespace ccore_cuda {

constexpr int kMostRanks = 16;

struct Sources {
  const void* memory[kMostRanks];
  int count;
};

// Bytes of an element; 0 for an unknown type.
size_t element_bytes(cc_dtype dtype);

// Whether fold() has the pair.
bool folds(cc_dtype dtype, cc_redop op);

// Queues target[i] = op over all sources of source[i], i < count. Sources are aligned to 16 bytes, target to its
// element. CC_AVG divides the sum by `ranks`.
void fold(const Sources& sources, void* target, size_t count, cc_dtype dtype, cc_redop op, int ranks,
          cudaStream_t stream);

}  // namespace ccore_cuda
