// Errors inside the library: thrown, and turned into a cc_result with a text at the ABI.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "collective_core/collective_core.h"

namespace ccore_cuda {

class Error : public std::runtime_error {
 public:
  Error(cc_result result, const std::string& text) : std::runtime_error(text), result_(result) {}
  cc_result result() const { return result_; }

 private:
  cc_result result_;
};

// Throws CC_ERROR_SYSTEM with CUDA's own text; `what` says what was being done.
inline void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  throw Error(CC_ERROR_SYSTEM, std::string(what) + ": " + cudaGetErrorString(code));
}

}  // namespace ccore_cuda
