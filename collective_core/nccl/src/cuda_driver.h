// The few functions of CUDA's driver interface that the meeting of the ranks and the graphs need. They are looked up in
// the driver of the machine, so that this library needs no CUDA toolkit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl_abi.h"

namespace ccore_nccl {

using Context = void*;  // CUcontext
using DevicePointer = uint64_t;  // CUdeviceptr
using Graph = void*;  // CUgraph

constexpr int kCudaSuccess = 0;
constexpr int kCudaNotReady = 600;
constexpr unsigned kNonBlockingStream = 1;
constexpr int kRelaxedCapture = 2;
constexpr int kCapturing = 1;

struct CudaDriver {
  int (*device_get)(int*, int);
  int (*primary_context_retain)(Context*, int);
  int (*context_get_current)(Context*);
  int (*context_push)(Context);
  int (*context_pop)(Context*);
  int (*stream_create)(Stream*, unsigned);
  int (*stream_destroy)(Stream);
  int (*stream_query)(Stream);
  int (*memory_allocate)(DevicePointer*, size_t);
  int (*memory_free)(DevicePointer);
  int (*copy_to_device)(DevicePointer, const void*, size_t, Stream);
  int (*copy_to_host)(void*, DevicePointer, size_t, Stream);
  int (*exchange_capture_mode)(int*);
  int (*capture_info)(Stream, int*, uint64_t*, Graph*, const void**, size_t*);
  int (*user_object_create)(void**, void*, void (*)(void*), unsigned, unsigned);
  int (*graph_retain_user_object)(Graph, void*, unsigned, unsigned);
};

// Null on a machine without a driver that has all of these (CUDA 11.3).
const CudaDriver* cuda_driver();

// Makes a context current for a scope, if it is not.
class ContextScope {
 public:
  explicit ContextScope(Context context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace ccore_nccl
