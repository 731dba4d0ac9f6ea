#include "transport/shm/windows.h"

#include <functional>

namespace ccore {

bool Window::holds(const void* data, size_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(data);
  // Of pointers into different objects, only these comparisons have a meaning.
  if (std::less<>()(begin, own_) || std::less<>()(own_ + bytes_, begin)) return false;
  return bytes <= static_cast<size_t>(own_ + bytes_ - begin);
}

uint64_t Window::offset_of(const void* data) const {
  return static_cast<uint64_t>(static_cast<const std::byte*>(data) - own_);
}

std::byte* Window::at(int rank, uint64_t offset, size_t bytes) const {
  const std::optional<MappedRange>& range = ranges_[static_cast<size_t>(rank)];
  const size_t whole = range ? range->bytes() : bytes_;
  if (offset > whole || bytes > whole - offset) return nullptr;
  return (range ? range->data() : own_) + offset;
}

void Windows::add(uint64_t number, Window window) {
  if (window.direct()) ++direct_;
  windows_.emplace(number, std::move(window));
}

void Windows::remove(uint64_t number) {
  const auto found = windows_.find(number);
  if (found == windows_.end()) return;
  if (found->second.direct()) --direct_;
  windows_.erase(found);
}

WindowPlace Windows::place_of(const void* data, size_t bytes) const {
  for (const auto& [number, window] : windows_) {
    if (window.direct() && window.holds(data, bytes)) return {number, window.offset_of(data)};
  }
  return {};
}

std::byte* Windows::at(int rank, const WindowPlace& place, size_t bytes) const {
  const auto found = windows_.find(place.window);
  return found == windows_.end() ? nullptr : found->second.at(rank, place.offset, bytes);
}

}  // namespace ccore
