// The environment variables of this library.
#pragma once

#include <cstdint>
#include <string>

#include "collective_core/collective_core_cuda.h"

namespace ccore_cuda {

struct Environment {
  cc_cuda_path path;      // CCORE_CUDA_PATH
  int64_t staging_bytes;  // CCORE_CUDA_STAGING_BYTES
  int64_t packet_bytes;   // CCORE_CUDA_PACKET_BYTES; 0: unset
  int32_t blocks;         // CCORE_CUDA_BLOCKS; 0: unset
  int32_t uses_descriptors;  // CCORE_CUDA_DESCRIPTORS
  bool autotune;             // CCORE_AUTOTUNE
};

// CCORE_CUDA_PATH as it is set; empty if it is unset.
std::string path_text();
// Throws CC_ERROR_INVALID_ARGUMENT for a value that it cannot read.
Environment read_environment();
// The deadline of the communicator's operations, in milliseconds.
int64_t timeout_of(const cc_comm* comm);

}  // namespace ccore_cuda
