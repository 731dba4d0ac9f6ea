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

// CUDA's own text, except for a driver that is missing or too old: which driver is needed depends on this build.
inline std::string reason_of(cudaError_t code) {
  if (code != cudaErrorInsufficientDriver) return cudaGetErrorString(code);
  int supported = 0;
  cudaDriverGetVersion(&supported);
  // The first driver of the CUDA whose runtime is linked. Within its major version, a runtime works with all drivers.
  const std::string needed =
      CUDART_VERSION >= 13000 ? "driver 580 or newer (CUDA 13)" : "driver 525 or newer (CUDA 12)";
  if (supported == 0) return "no NVIDIA driver was found; install " + needed;
  return "the NVIDIA driver is for CUDA " + std::to_string(supported / 1000) + "." +
         std::to_string(supported % 1000 / 10) + "; install " + needed;
}

// Throws CC_ERROR_SYSTEM; `what` says what was being done.
inline void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw Error(CC_ERROR_SYSTEM, std::string(what) + ": " + reason_of(code));
}

}  // namespace ccore_cuda
