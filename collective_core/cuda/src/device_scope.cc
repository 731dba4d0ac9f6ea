#include "device_scope.h"

#include <cuda_runtime_api.h>

#include <string>

#include "driver.h"
#include "error.h"

namespace ccore_cuda {
namespace {

void check_driver(CUresult code, const char* what) {
  if (code != CUDA_SUCCESS) {
    throw Error(CC_ERROR_SYSTEM, std::string(what) + " failed with code " + std::to_string(static_cast<int>(code)));
  }
}

CUcontext current_context() {
  static const auto get = driver_function<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  if (!get) throw Error(CC_ERROR_SYSTEM, "no NVIDIA driver was found");
  const CUresult code = get(&context);
  if (code == CUDA_ERROR_NOT_INITIALIZED) return nullptr;
  check_driver(code, "cuCtxGetCurrent");
  return context;
}

}  // namespace

DeviceContext DeviceContext::current() {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  // A context that the program has made itself stays current.
  if (!current_context()) check(cudaSetDevice(device), "creating the context of the device");
  return DeviceContext(current_context(), device);
}

int device_of(CUcontext context) {
  static const auto get = driver_function<CUresult (*)(CUdevice*)>("cuCtxGetDevice");
  const DeviceScope scope(context);
  CUdevice device = -1;
  return get && get(&device) == CUDA_SUCCESS ? device : -1;
}

DeviceScope::DeviceScope(CUcontext context) {
  static const auto push = driver_function<CUresult (*)(CUcontext)>("cuCtxPushCurrent_v2");
  if (current_context() == context) return;
  check_driver(push(context), "cuCtxPushCurrent");
  pushed_ = true;
}

DeviceScope::~DeviceScope() {
  static const auto pop = driver_function<CUresult (*)(CUcontext*)>("cuCtxPopCurrent_v2");
  CUcontext context = nullptr;
  if (pushed_) pop(&context);
}

}  // namespace ccore_cuda
