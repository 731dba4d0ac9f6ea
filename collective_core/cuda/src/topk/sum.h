// The sum of sparse vectors on the GPU, with the same bits on all ranks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "collective_core/collective_core.h"

namespace ccore_cuda::topk {

struct SparseSum {
  const void* const* payloads;  // an array on the host
  size_t payload_count;
  uint32_t kept;
  bool half_values;
  int divisor;
  void* out;
  uint32_t count;
  cc_dtype dtype;
};

// Scratch of a sum: zero before and after it.
struct SumScratch {
  float* sums;       // count of them, for out of 16 bits; else null
  uint32_t* claims;  // a bit per element, if a touched element is visited once more; else null
  uint32_t* broken;  // set to 1 by an index beyond count
};
bool needs_sums(const SparseSum& sum);
bool needs_claims(const SparseSum& sum);

void add_up(const SparseSum& sum, const SumScratch& scratch, cudaStream_t stream);

}  // namespace ccore_cuda::topk
