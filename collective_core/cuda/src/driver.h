// Calls of the CUDA driver, found at run time: the library must load on machines without one.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace ccore_cuda {

// The function of the driver; null without a driver, and for a function that it lacks.
void* driver_symbol(const char* name);
template <typename Function>
Function driver_function(const char* name) {
  return reinterpret_cast<Function>(driver_symbol(name));
}

// The allocation that an address of device memory lies in. Its number is never used twice in a process.
struct Allocation {
  uint64_t number;
  uintptr_t base;
  size_t bytes;
};
std::optional<Allocation> allocation_of(const void* address);
// Whether it is memory of cudaMalloc(), which the peer access between two devices of a process covers. Memory of pools and
// of cuMemMap() has access rights of its own.
bool is_plain_memory(const void* address);

// Whether the driver can queue memory operations on streams.
bool has_stream_operations();
// 0 if the driver does not have the attribute.
int device_attribute(int device, int attribute);

// Words that a stream writes and waits for in its front end: a list that one call of the driver queues.
class StreamWords {
 public:
  // flushes: work after a wait sees what another GPU wrote before the word, where the device does not order that itself.
  explicit StreamWords(bool flushes = false) : flushes_(flushes) {}

  // Everything queued before on the stream is visible to who sees the value.
  void write(uint32_t* word, uint32_t value);
  void write(uint64_t* word, uint64_t value);
  // Until the word is at least the value, as numbers that wrap around.
  void wait(const uint32_t* word, uint32_t value);
  // Queues the list in order and empties it.
  void queue(cudaStream_t stream);

 private:
  const bool flushes_;
  std::vector<CUstreamBatchMemOpParams> list_;
};

}  // namespace ccore_cuda
