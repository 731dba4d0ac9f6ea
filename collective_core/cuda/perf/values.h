// Test data: each element is a function of seed, rank and index, so that results are checked on the GPU, bit for bit.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "collective_core/collective_core.h"

namespace cuda_perf {

// to[i] = the value of `rank` at index first + i.
void fill(void* to, size_t count, size_t first, cc_dtype dtype, uint32_t seed, int rank, cudaStream_t stream);
// Adds to *wrong each i where got[i] is not the reduction of the values of all ranks, in their order, at first + i.
void check_reduced(const void* got, size_t count, size_t first, cc_dtype dtype, cc_redop op, uint32_t seed, int ranks,
                   unsigned long long* wrong, cudaStream_t stream);
// The same for a copy of the value of one rank.
void check_copied(const void* got, size_t count, size_t first, cc_dtype dtype, uint32_t seed, int rank,
                  unsigned long long* wrong, cudaStream_t stream);

}  // namespace cuda_perf
