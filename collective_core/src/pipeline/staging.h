// Host memory through which chunks of device memory pass: some buffers, allocated once, each at the start of a page.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccore {

// One of the buffers, and the copy to or from it that is under way.
struct StagingSlot {
  std::byte* memory = nullptr;
  bool copying = false;
  uint64_t copy = 0;
};

class Staging {
 public:
  // Throws CC_ERROR_SYSTEM.
  Staging(size_t buffers, size_t buffer_bytes);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  std::byte* buffer(size_t index) const { return memory_ + index * stride_; }
  // Never frees the memory: something may still write to it.
  void leave_mapped() { memory_ = nullptr; }

 private:
  size_t stride_;
  size_t bytes_;
  std::byte* memory_;
};

}  // namespace ccore
