#include "cuda_driver.h"

#include <dlfcn.h>

#include <type_traits>

namespace ccore_nccl {
namespace {

struct Found {
  CudaDriver functions{};
  bool complete = false;
};

Found find_all() {
  Found found;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return found;
  found.complete = true;
  const auto find = [&](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    found.complete = found.complete && *function != nullptr;
  };
  CudaDriver& to = found.functions;
  find(&to.device_get, "cuDeviceGet");
  find(&to.primary_context_retain, "cuDevicePrimaryCtxRetain");
  find(&to.context_get_current, "cuCtxGetCurrent");
  find(&to.context_push, "cuCtxPushCurrent_v2");
  find(&to.context_pop, "cuCtxPopCurrent_v2");
  find(&to.stream_create, "cuStreamCreate");
  find(&to.stream_destroy, "cuStreamDestroy_v2");
  find(&to.stream_query, "cuStreamQuery");
  find(&to.memory_allocate, "cuMemAlloc_v2");
  find(&to.memory_free, "cuMemFree_v2");
  find(&to.copy_to_device, "cuMemcpyHtoDAsync_v2");
  find(&to.copy_to_host, "cuMemcpyDtoHAsync_v2");
  find(&to.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  find(&to.capture_info, "cuStreamGetCaptureInfo_v2");
  find(&to.user_object_create, "cuUserObjectCreate");
  find(&to.graph_retain_user_object, "cuGraphRetainUserObject");
  return found;
}

}  // namespace

const CudaDriver* cuda_driver() {
  static const Found found = find_all();
  return found.complete ? &found.functions : nullptr;
}

ContextScope::ContextScope(Context context) {
  const CudaDriver* driver = cuda_driver();
  Context current = nullptr;
  if (driver->context_get_current(&current) == kCudaSuccess && current == context) return;
  pushed_ = driver->context_push(context) == kCudaSuccess;
}

ContextScope::~ContextScope() {
  Context popped = nullptr;
  if (pushed_) cuda_driver()->context_pop(&popped);
}

}  // namespace ccore_nccl
