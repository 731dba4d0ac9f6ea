// Puts the frames of a striped connection back in order: where the bytes of a frame go, and which bytes are next.
// Knows memory only, no sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/link.h"

namespace ccore {

struct Space {
  std::byte* data = nullptr;
  size_t size = 0;  // 0: there is none for that place yet
};

class Reassembly {
 public:
  // window_bytes: how far ahead of position() bytes are taken that have no place in the caller's memory yet. All
  // that it ever allocates, and the pages of it are only touched when frames overtake one another or are peeked at.
  explicit Reassembly(size_t window_bytes);

  // Of the next byte that the caller gets, in the stream.
  uint64_t position() const { return position_; }

  // The memory of the bytes from position() on, until the next call. Only between offer() and withdraw() do bytes
  // go there.
  void offer(std::byte* data, size_t size);
  void withdraw() { offered_ = Space{}; }

  // A frame begins. False if some of its bytes came before, or were announced before.
  bool announce(uint64_t offset, size_t length);
  // Where the bytes from `offset` on, part of a frame that was announced, may be written.
  Space space(uint64_t offset, size_t length) const;
  // They were written there.
  void received(uint64_t offset, size_t size);

  // Moves on over bytes that are complete: those in the caller's memory stay there, the others are copied to it.
  // Returns how many.
  size_t take(std::byte* data, size_t size);
  // Complete bytes that are next, contiguous, as many as there are or (where the window wraps) at least at_least of
  // them, which is at most 64.
  Bytes peek(size_t at_least);
  void consume(size_t size);

 private:
  // Bytes that are there: in the caller's memory if placed, else in the window.
  struct Run {
    uint64_t begin;
    uint64_t end;
    bool placed;
  };
  struct Range {
    uint64_t begin;
    uint64_t end;
  };

  bool in_offered(uint64_t offset) const { return offset - position_ < offered_.size; }
  void drop_announced(uint64_t begin, uint64_t end);
  void advance(size_t size);

  size_t window_bytes_;
  std::unique_ptr<std::byte[]> window_;
  uint64_t position_ = 0;
  Space offered_;
  std::vector<Run> runs_;         // ordered; neighbours of one kind are joined
  std::vector<Range> announced_;  // not yet received, one at most for each socket
};

}  // namespace ccore
