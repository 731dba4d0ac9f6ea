// The last step of an average.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "collective_core/collective_core.h"

namespace ccore_cuda::nodes {

// Queues data[i] /= divisor, integers truncated toward zero.
void divide(void* data, size_t count, cc_dtype dtype, int divisor, cudaStream_t stream);

}  // namespace ccore_cuda::nodes
