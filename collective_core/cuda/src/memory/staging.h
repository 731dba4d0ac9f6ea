// Memory of this rank for operations on buffers that peers cannot map. It grows with what is asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
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

  // settle: returns when the operations that were queued have ended. CUDA may let an allocation wait for them, and they for
  // a peer, and the peer for this rank to map something, which waits for the allocation.
  Staging(Buffers* buffers, std::function<void()> settle, int64_t limit_ns)
      : buffers_(buffers), settle_(std::move(settle)), limit_ns_(limit_ns) {}

  // At least `bytes`, which peers map. Places that were given out before stay valid: CUDA graphs hold them.
  const Place& reserve(size_t bytes);

 private:
  Buffers* const buffers_;
  const std::function<void()> settle_;
  const int64_t limit_ns_;  // for the peers to map it
  std::vector<std::unique_ptr<DeviceMemoryBlock>> blocks_;
  size_t bytes_ = 0;
  Place place_{};
};

}  // namespace ccore_cuda
