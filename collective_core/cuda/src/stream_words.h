// Words in device memory that streams write and wait for, in their front end.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace ccore_cuda {

// A list of writes and waits, queued by one call of the driver.
class StreamWords {
 public:
  // Throws CC_ERROR_SYSTEM if the driver or the current device cannot do it.
  static void require_support();

  // Everything queued before on the stream is visible to whoever sees the value.
  void write(uint32_t* word, uint32_t value) { items_.push_back({word, value, false}); }
  // Until the word is at least the value, as numbers that wrap around.
  void wait(const uint32_t* word, uint32_t value) { items_.push_back({const_cast<uint32_t*>(word), value, true}); }
  // Queues the list in order and empties it.
  void queue(cudaStream_t stream);

 private:
  struct Item {
    uint32_t* word;
    uint32_t value;
    bool waits;
  };
  std::vector<Item> items_;
};

}  // namespace ccore_cuda
