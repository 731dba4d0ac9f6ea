// The memory that all ranks of a communicator have registered together, and where each finds that of the others. A
// *window* is one such registration: a range of every rank, by one number on all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/shm/shared_memory.h"

namespace ccore {

class RegisteredSource;

// Where a buffer of a rank lies; travels as bytes.
struct WindowPlace {
  uint64_t window = 0;  // 0: in none
  uint64_t offset = 0;  // in bytes
};

class Window {
 public:
  // own: of this rank. source: null if no network device sends from it. ranges: by rank, nothing at the own place; empty
  // if the ranks cannot reach each other's.
  Window(void* own, size_t bytes, SharedMemoryUse use, std::shared_ptr<RegisteredSource> source,
         std::vector<std::optional<MappedRange>> ranges)
      : own_(static_cast<std::byte*>(own)),
        bytes_(bytes),
        use_(std::move(use)),
        source_(std::move(source)),
        ranges_(std::move(ranges)) {}

  bool direct() const { return !ranges_.empty(); }
  bool holds(const void* data, size_t bytes) const;
  uint64_t offset_of(const void* data) const;
  // Null if that is not in the rank's part of the window.
  std::byte* at(int rank, uint64_t offset, size_t bytes) const;

 private:
  std::byte* own_;
  size_t bytes_;
  SharedMemoryUse use_;
  std::shared_ptr<RegisteredSource> source_;  // ends before the memory may be freed
  std::vector<std::optional<MappedRange>> ranges_;
};

class Windows {
 public:
  // All ranks add and remove the same ones at the same place among their operations.
  void add(uint64_t number, Window window);
  void remove(uint64_t number);
  bool has(uint64_t number) const { return windows_.count(number) == 1; }
  // Whether there is memory that all can reach.
  bool any_direct() const { return direct_ > 0; }

  WindowPlace place_of(const void* data, size_t bytes) const;
  // Where this rank sees that place of a rank; null if it cannot.
  std::byte* at(int rank, const WindowPlace& place, size_t bytes) const;

 private:
  std::map<uint64_t, Window> windows_;
  int direct_ = 0;
};

}  // namespace ccore
