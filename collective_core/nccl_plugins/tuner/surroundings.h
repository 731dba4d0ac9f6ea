// What a table depends on besides the communicator: read from the libraries that are loaded in this process.
#pragma once

#include <string>

namespace ccore::nccl {

// "NVIDIA H200", of the current CUDA device; "unknown" without a driver.
std::string gpu_name();
// NCCL's version number, such as 22809, of the library that an address of its code belongs to; 0 if it has none.
int nccl_version(void* address_in_nccl);

}  // namespace ccore::nccl
