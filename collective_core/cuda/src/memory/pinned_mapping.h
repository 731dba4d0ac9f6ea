// Host memory that all ranks map and that their GPUs read and write at the same address: words and data without the driver.
#pragma once

#include <cstddef>

#include "meeting.h"
#include "memory/board.h"

namespace ccore_cuda {

class PinnedMapping {
 public:
  // Collective. Fails on all ranks if it fails on one. `what` is for error texts. Zero at first.
  PinnedMapping(const Meeting& meeting, size_t bytes, const char* what);
  ~PinnedMapping();
  PinnedMapping(const PinnedMapping&) = delete;
  PinnedMapping& operator=(const PinnedMapping&) = delete;

  char* get() const { return static_cast<char*>(mapping_.get()); }

 private:
  SharedMapping mapping_;
};

}  // namespace ccore_cuda
