// Memory of this rank for operations on buffers that peers cannot map. It grows with what is asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/buffers.h"
#include "memory/owned.h"

namespace ccore_cuda {

class Staging {
 public:
  struct Place {
    char* memory;
    uint64_t addresses[kMostRanks];  // as each peer sees it
  };

  // has_threads: other ranks of this process use the same GPU.
  Staging(Buffers* buffers, bool has_threads) : buffers_(buffers), has_threads_(has_threads) {}

  // At least `bytes`, which peers map. Places that were given out before stay valid: CUDA graphs hold them.
  const Place& reserve(size_t bytes);

 private:
  Buffers* const buffers_;
  const bool has_threads_;
  std::vector<std::unique_ptr<DeviceMemoryBlock>> blocks_;
  std::vector<std::unique_ptr<AsynchronousMemory>> asynchronous_blocks_;
  size_t bytes_ = 0;
  Place place_{};
};

}  // namespace ccore_cuda
