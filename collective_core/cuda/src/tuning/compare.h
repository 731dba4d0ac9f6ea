// Kernels that make the input of a check of results, and compare two results.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "collective_core/collective_core.h"

namespace ccore_cuda {

// Whether the functions below have kernels for the type.
bool can_compare(cc_dtype dtype);

// Loads the kernels: one that is loaded when it is first used may wait for a kernel that waits for its peer.
void load_compare_kernels();

// Numbers from which no operator makes an overflow, other ones on each rank.
void start_fill(void* data, size_t count, cc_dtype dtype, int rank, cudaStream_t stream);

// Adds to *wrong the elements that differ. rounds: sums, averages and products of floating-point numbers may differ by
// what `ranks` roundings on either side allow, which is 2 * ranks * epsilon of the type, relative. Without it, and for
// integers, all bits must be equal.
void start_compare(const void* one, const void* other, size_t count, cc_dtype dtype, bool rounds, int ranks,
                   uint32_t* wrong, cudaStream_t stream);

}  // namespace ccore_cuda
