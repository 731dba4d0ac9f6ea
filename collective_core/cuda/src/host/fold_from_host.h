// The kernel of HostFold.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "collective_core/collective_core.h"
#include "protocol/layout.h"

namespace ccore_cuda {

struct FoldFromHost {
  const void* sources[kMostRanks];  // in the order of the ranks: host memory, and this rank's own in device memory
  void* output;                     // in device memory
  void* result;                     // the same for the others, in host memory
  size_t count;
  int rank;
  int size;
  cc_redop op;
};

// Queues the kernel. Host memory is aligned to 16 bytes, device memory to its element.
void start_fold_from_host(const FoldFromHost& fold, cc_dtype dtype, cudaStream_t stream);

}  // namespace ccore_cuda
