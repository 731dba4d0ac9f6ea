// A CUDA driver and a libcollective_core_cuda.so for the case device-memory: memory that a test marks counts as device
// memory, and operations on it are those of the library for the host. What is proven with it is what that library does
// around them. Built twice, under both names.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collective_core/collective_core.h"
#include "device/part.h"

#ifdef CCORE_STAND_IN_DRIVER

namespace {

std::mutex mutex;
std::vector<std::pair<uintptr_t, size_t>> marked;

}  // namespace

extern "C" CC_API void stand_in_mark(const void* memory, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex);
  marked.emplace_back(reinterpret_cast<uintptr_t>(memory), bytes);
}

extern "C" CC_API int cuPointerGetAttribute(void* value, int attribute, uintptr_t address) {
  const std::lock_guard<std::mutex> lock(mutex);
  const bool found = std::any_of(marked.begin(), marked.end(), [&](const auto& one) {
    return address >= one.first && address - one.first < one.second;
  });
  if (!found) return 1;  // CUDA_ERROR_INVALID_VALUE
  *static_cast<unsigned*>(value) = attribute == 2 ? 2 : 0;
  return 0;
}

#else

namespace {

using ccore::DeviceCall;
using ccore::DeviceWay;

struct Handle {
  cc_comm* comm;
  std::atomic<bool> failed{false};
};

thread_local std::string text;
std::atomic<void*> last_stream{nullptr};
std::atomic<int> alive{0};
std::atomic<int> failing{0};  // of the next operations, on any rank

cc_result failure(cc_result code, const char* what) {
  text = what;
  return code;
}

cc_result create(cc_comm* comm, void** handle) {
  *handle = new Handle{comm};
  ++alive;
  return CC_SUCCESS;
}

cc_result run_on_host(cc_comm* comm, const DeviceCall& call) {
  cc_op_options options{};
  options.size = sizeof options;
  options.timeout_ms = call.timeout_ms;
  options.memory = CC_MEMORY_HOST;
  switch (call.operation) {
    case CC_OPERATION_ALL_REDUCE:
      return cc_all_reduce(call.send, call.recv, call.count, call.dtype, call.op, comm, &options);
    case CC_OPERATION_BROADCAST:
      return cc_broadcast(call.send, call.recv, call.count, call.dtype, call.root, comm, &options);
    case CC_OPERATION_ALL_GATHER:
      return cc_all_gather(call.send, call.recv, call.count, call.dtype, comm, &options);
    case CC_OPERATION_ALL_GATHERV:
      return cc_all_gatherv(call.send, call.recv, call.recv_counts, call.recv_offsets, call.dtype, comm, &options);
    case CC_OPERATION_ALL_TO_ALLV:
      return cc_all_to_allv(call.send, call.send_counts, call.send_offsets, call.recv, call.recv_counts,
                            call.recv_offsets, call.dtype, comm, &options);
    default:
      return CC_ERROR_INTERNAL;
  }
}

cc_result run(void* handle, const DeviceCall* call, DeviceWay* way) {
  last_stream = call->stream;
  *way = DeviceWay::inside;
  if (failing.load() > 0 && failing.fetch_sub(1) > 0) return failure(CC_ERROR_SYSTEM, "the GPU has fallen off the bus");
  const cc_result result = run_on_host(static_cast<Handle*>(handle)->comm, *call);
  return result == CC_SUCCESS ? result : failure(result, cc_last_error(nullptr));
}

cc_result way_of(void*, const DeviceCall* call, DeviceWay* way) {
  *way = call->count > 1000 ? DeviceWay::between : DeviceWay::staged;
  return CC_SUCCESS;
}

cc_result poll(void* handle) {
  return static_cast<Handle*>(handle)->failed ? failure(CC_ERROR_TIMEOUT, "a kernel waited too long") : CC_SUCCESS;
}

void abort(void* handle) { cc_comm_abort(static_cast<Handle*>(handle)->comm); }

void destroy(void* handle) {
  delete static_cast<Handle*>(handle);
  --alive;
}

const char* last_error() { return text.c_str(); }

}  // namespace

extern "C" CC_API const ccore::DevicePart* cc_cuda_device_part() {
  static const ccore::DevicePart part{CC_VERSION_NUMBER, create, run, way_of, poll, abort, destroy, last_error};
  return &part;
}

extern "C" CC_API void* stand_in_last_stream() { return last_stream; }
extern "C" CC_API int stand_in_alive() { return alive; }
extern "C" CC_API void stand_in_fail(int operations) { failing = operations; }

#endif
