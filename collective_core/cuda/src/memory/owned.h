// Memory with an owner.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "error.h"

namespace ccore_cuda {

class DeviceMemoryBlock {
 public:
  explicit DeviceMemoryBlock(size_t bytes, bool clears = true) {
    check(cudaMalloc(&memory_, bytes), "allocating memory on the GPU");
    if (!clears) return;
    const cudaError_t code = cudaMemset(memory_, 0, bytes);
    if (code != cudaSuccess) cudaFree(memory_);
    check(code, "clearing memory on the GPU");
  }
  ~DeviceMemoryBlock() { cudaFree(memory_); }
  DeviceMemoryBlock(const DeviceMemoryBlock&) = delete;
  DeviceMemoryBlock& operator=(const DeviceMemoryBlock&) = delete;

  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
};

// Host memory that the device maps.
class MappedHostMemory {
 public:
  explicit MappedHostMemory(size_t bytes) {
    check(cudaHostAlloc(&host_, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "allocating pinned memory");
    __builtin_memset(host_, 0, bytes);
    check(cudaHostGetDevicePointer(&device_, host_, 0), "mapping pinned memory");
  }
  ~MappedHostMemory() { cudaFreeHost(host_); }
  MappedHostMemory(const MappedHostMemory&) = delete;
  MappedHostMemory& operator=(const MappedHostMemory&) = delete;

  template <typename T>
  T* host() const {
    return static_cast<T*>(host_);
  }
  template <typename T>
  T* device() const {
    return static_cast<T*>(device_);
  }

 private:
  void* host_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace ccore_cuda
