// The context of a device, made current for a while. A thread of the caller may have another device current, or none;
// the driver's stack of contexts restores either. cudaSetDevice() would not: it creates a context on the device that it
// restores, which takes memory on a GPU that the process does not use.
#pragma once

#include <cuda.h>

namespace ccore_cuda {

class DeviceContext {
 public:
  // That of the calling thread's current device, which is created if need be. Throws CC_ERROR_SYSTEM.
  static DeviceContext current();

  CUcontext get() const { return context_; }
  int device() const { return device_; }
  bool operator==(const DeviceContext& other) const { return context_ == other.context_; }
  bool operator!=(const DeviceContext& other) const { return context_ != other.context_; }

 private:
  DeviceContext(CUcontext context, int device) : context_(context), device_(device) {}

  CUcontext context_;
  int device_;
};

// The device of a context; -1 if the driver does not tell.
int device_of(CUcontext context);

class DeviceScope {
 public:
  // Throws CC_ERROR_SYSTEM.
  explicit DeviceScope(const DeviceContext& context) : DeviceScope(context.get()) {}
  explicit DeviceScope(CUcontext context);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace ccore_cuda
