// The memory of each rank that its peers write, on the GPU or in host memory.
#pragma once

#include <memory>
#include <vector>

#include "memory/board.h"
#include "memory/buffers.h"
#include "memory/owned.h"

namespace ccore_cuda {

class Regions {
 public:
  virtual ~Regions() = default;
  // As kernels of this rank see it.
  virtual char* of(int rank) const = 0;
};

// Collective. Fails on all ranks if it fails on one.
std::unique_ptr<Regions> make_device_regions(const Meeting& meeting, size_t slot_bytes, Buffers* buffers);
std::unique_ptr<Regions> make_host_regions(const Meeting& meeting, size_t slot_bytes);

}  // namespace ccore_cuda
