// Memory that peers or the device reach: registered, and mapped twice in a row, so that what wraps is contiguous.
#pragma once

#include <cstddef>
#include <optional>

#include "transport/rdma/device.h"

namespace ccore {

// The pages are shared memory of an anonymous file: a fork copies none of them, so what the device writes stays visible.
class RingMemory {
 public:
  // size: a power of two, at least a page. remote: whether peers may write to it. Throws CC_ERROR_SYSTEM.
  RingMemory(const RdmaRails& rails, size_t size, bool remote);
  ~RingMemory();
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;

  // Of a position in the stream; `size()` bytes are contiguous from there.
  std::byte* at(uint64_t position) const { return data_ + position % size_; }
  size_t size() const { return size_; }
  // Of the registration, which is of the first mapping alone: a transfer ends at its end.
  uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }
  size_t until_wrap(uint64_t position) const { return size_ - static_cast<size_t>(position % size_); }
  uint32_t lkey(size_t rail) const { return regions_->on(rail).lkey; }
  uint32_t rkey(size_t rail) const { return regions_->on(rail).rkey; }

 private:
  size_t size_;
  std::byte* data_ = nullptr;
  std::optional<RailRegions> regions_;
};

}  // namespace ccore
