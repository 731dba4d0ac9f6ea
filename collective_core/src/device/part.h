// What libcollective_core_cuda.so does for this library: the operations on the memory of CUDA devices. This library links
// neither CUDA nor that one, and loads it at the first such operation. Both are built of one tree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collective_core/collective_core.h"

namespace ccore {

// The arguments of a collective, as in collective_core.h.
struct DeviceCall {
  cc_operation operation;
  const void* send;
  void* recv;
  size_t count;
  cc_dtype dtype;
  cc_redop op;
  int root;
  const size_t* send_counts;  // of all_to_allv; null elsewhere
  const size_t* send_offsets;  // the same
  const size_t* recv_counts;  // of all_to_allv and all_gatherv; null elsewhere
  const size_t* recv_offsets;  // the same
  void* stream;  // a cudaStream_t
  int64_t timeout_ms;  // 0: the communicator's
};

// How an operation was carried out.
enum class DeviceWay : int32_t {
  inside,  // on the GPUs of one node
  between,  // inside the nodes on the GPUs, between them through pinned host memory
  staged,  // through pinned host memory alone
};

// All functions but create may be called from any thread. They return as those of the C ABI do; the text of the error is
// that of last_error on the same thread.
struct DevicePart {
  int32_t version;  // CC_VERSION_NUMBER of its build
  // Collective over comm, which outlives the handle. Fails on all ranks or on none.
  cc_result (*create)(cc_comm* comm, void** handle);
  // Queues the operation on its stream, or carries it out.
  cc_result (*run)(void* handle, const DeviceCall* call, DeviceWay* way);
  // The way that the next operation of that size takes, without meeting the other ranks.
  cc_result (*way_of)(void* handle, const DeviceCall* call, DeviceWay* way);
  // CC_SUCCESS, or the first error of what was queued. Does not block.
  cc_result (*poll)(void* handle);
  void (*abort)(void* handle);
  void (*destroy)(void* handle);
  const char* (*last_error)();
};

// The one function that is looked up by name: "cc_cuda_device_part".
using DevicePartFunction = const DevicePart* (*)();

}  // namespace ccore
