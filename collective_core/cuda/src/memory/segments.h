// The pieces of physical memory behind a range of addresses that was mapped by cuMemMap, as torch's expandable segments
// are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/virtual_memory.h"

namespace ccore_cuda {

struct Segment {
  uintptr_t base;
  size_t bytes;
  PhysicalMemory memory;
};

// Segments that follow each other without a gap. They hold a reference to their memory: while it lives, no other memory
// can have its handle, so an equal handle at an address means that nothing else was mapped there since.
class Segments {
 public:
  static constexpr size_t kMost = 1024;

  Segments() = default;
  ~Segments();
  Segments(Segments&& other) noexcept;
  Segments& operator=(Segments&& other) noexcept;
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  // The segments that the range touches, whole. Empty if a part of the range is not mapped by cuMemMap, or if there are
  // more than kMost.
  static Segments behind(VirtualMemory* driver, uintptr_t begin, size_t bytes);

  bool contain(uintptr_t begin, size_t bytes) const;
  // Whether the addresses of the range still are those of this memory. The range must be contained.
  bool are_mapped(uintptr_t begin, size_t bytes) const;
  bool are_mapped() const { return are_mapped(base(), bytes()); }
  bool have_descriptors() const;

  bool empty() const { return list_.empty(); }
  uintptr_t base() const { return list_.empty() ? 0 : list_.front().base; }
  size_t bytes() const { return list_.empty() ? 0 : list_.back().base + list_.back().bytes - list_.front().base; }
  const std::vector<Segment>& list() const { return list_; }

 private:
  void release();

  VirtualMemory* driver_ = nullptr;
  std::vector<Segment> list_;
};

}  // namespace ccore_cuda
