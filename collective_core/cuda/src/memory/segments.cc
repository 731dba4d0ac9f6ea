#include "memory/segments.h"

#include <algorithm>
#include <utility>

namespace ccore_cuda {
namespace {

bool is_mapped_at(VirtualMemory* driver, uintptr_t address, PhysicalMemory memory) {
  PhysicalMemory found = 0;
  if (!driver->retain(address, &found)) return false;
  driver->release(found);
  return found == memory;
}

// The addresses around one of them at which the memory is mapped.
AddressRange mapping_of(VirtualMemory* driver, uintptr_t address, PhysicalMemory memory, const AddressRange& range) {
  const size_t step = driver->granularity();
  const uintptr_t range_end = range.base + range.bytes;
  const uintptr_t last = range_end - std::min(step, range.bytes);
  // Both ends have the memory if the range is its mapping. In a reserved range, mappings follow each other.
  if (is_mapped_at(driver, range.base, memory) && is_mapped_at(driver, last, memory)) return range;
  uintptr_t begin = address - (address - range.base) % step, end = std::min(begin + step, range_end);
  while (begin > range.base && is_mapped_at(driver, begin - step, memory)) begin -= step;
  while (end < range_end && is_mapped_at(driver, end, memory)) end = std::min(end + step, range_end);
  return {begin, end - begin};
}

}  // namespace

Segments::~Segments() { release(); }

Segments::Segments(Segments&& other) noexcept : driver_(other.driver_), list_(std::move(other.list_)) {
  other.list_.clear();
}

Segments& Segments::operator=(Segments&& other) noexcept {
  if (this != &other) {
    release();
    driver_ = other.driver_;
    list_ = std::move(other.list_);
    other.list_.clear();
  }
  return *this;
}

void Segments::release() {
  for (const Segment& segment : list_) driver_->release(segment.memory);
  list_.clear();
}

Segments Segments::behind(VirtualMemory* driver, uintptr_t begin, size_t bytes) {
  Segments found;
  found.driver_ = driver;
  const uintptr_t end = begin + bytes;
  for (uintptr_t at = begin; at < end;) {
    Segment segment{};
    AddressRange range{};
    if (found.list_.size() == kMost || !driver->retain(at, &segment.memory)) return {};
    found.list_.push_back(segment);  // which releases it from now on
    if (!driver->range_of(at, &range) || at < range.base || at - range.base >= range.bytes) {
      range = {0, SIZE_MAX / driver->granularity() * driver->granularity()};
    }
    const AddressRange mapping = mapping_of(driver, at, segment.memory, range);
    found.list_.back().base = mapping.base;
    found.list_.back().bytes = mapping.bytes;
    at = mapping.base + mapping.bytes;
  }
  return found;
}

bool Segments::contain(uintptr_t begin, size_t range_bytes) const {
  return begin >= base() && range_bytes <= bytes() && begin - base() <= bytes() - range_bytes;
}

bool Segments::are_mapped(uintptr_t begin, size_t range_bytes) const {
  const uintptr_t end = begin + range_bytes;
  return std::all_of(list_.begin(), list_.end(), [&](const Segment& segment) {
    const bool touches = segment.base < end && begin < segment.base + segment.bytes;
    return !touches || is_mapped_at(driver_, segment.base, segment.memory);
  });
}

bool Segments::have_descriptors() const {
  return std::all_of(list_.begin(), list_.end(),
                     [this](const Segment& segment) { return driver_->has_descriptors(segment.memory); });
}

}  // namespace ccore_cuda
