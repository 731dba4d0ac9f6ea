// CUDA's objects with owners.
#pragma once

#include <cuda_runtime_api.h>
#include <sched.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "error.h"

namespace ccore_cuda::nodes {

class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "recording an event"); }
  // Work that is queued on the stream from now on begins after what was recorded; at once, if nothing was.
  void hold_back(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, event_, 0), "ordering streams"); }
  cudaEvent_t get() const { return event_; }
  bool has_passed() const {
    const cudaError_t code = cudaEventQuery(event_);
    if (code == cudaErrorNotReady) return false;
    check(code, "waiting for the GPU");
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

constexpr int64_t kLookNs = 1000000;  // a wait of this length is spent looking; later the thread sleeps

// Returns when the event has passed; `check_others` may throw meanwhile. what: what the GPU has to finish, for the error.
template <typename Check>
void await(const Event& event, int64_t limit_ms, const char* what, Check check_others) {
  const auto begin = std::chrono::steady_clock::now();
  while (!event.has_passed()) {
    const auto waited = std::chrono::steady_clock::now() - begin;
    check_others();
    if (std::chrono::duration_cast<std::chrono::milliseconds>(waited).count() > limit_ms) {
      throw Error(CC_ERROR_TIMEOUT, std::string("the GPU did not finish ") + what + " within " +
                                        std::to_string(limit_ms) +
                                        " ms; look for a kernel that hangs, or raise the timeout");
    }
    if (waited < std::chrono::nanoseconds(kLookNs)) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  check_others();
}

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Memory that grows and loses its content by that; nothing may use it then.
template <cudaError_t (*allocate)(void**, size_t), cudaError_t (*release)(void*)>
class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { release(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void clear() {
    release(std::exchange(data_, nullptr));
    bytes_ = 0;
  }
  char* of(size_t bytes) {
    if (bytes > bytes_) {
      check(release(std::exchange(data_, nullptr)), "freeing memory");
      bytes_ = 0;
      check(allocate(&data_, bytes), "allocating memory");
      bytes_ = bytes;
    }
    return static_cast<char*>(data_);
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

inline cudaError_t allocate_device(void** data, size_t bytes) { return cudaMalloc(data, bytes); }
inline cudaError_t allocate_pinned(void** data, size_t bytes) {
  return cudaHostAlloc(data, bytes, cudaHostAllocPortable);
}
using DeviceBuffer = Buffer<allocate_device, cudaFree>;
using PinnedBuffer = Buffer<allocate_pinned, cudaFreeHost>;

}  // namespace ccore_cuda::nodes
