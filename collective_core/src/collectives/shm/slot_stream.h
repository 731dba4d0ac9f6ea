// Data of any size through the slot areas of a node in one meeting: ranks write it there chunk by chunk, and those for
// whom it is read it where it lies, while the next chunk is written.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/shm/stage.h"
#include "common/caches.h"

namespace ccore {

// How the parts that a rank has for others lie in its slot area: `parts` of up to `bytes` bytes each, cut into chunks of
// whole elements. The same on all ranks.
class StreamPlan {
 public:
  // Chunks in flight: one that is written, one that is read, and two more, so that a rank that is late by one holds up
  // no other rank, and none waits to hear that its chunks were read.
  static constexpr size_t kDepth = 4;
  // Of a rank, all parts of a chunk together. Those in flight of some ranks fit the second-level cache; where the data
  // does not, fewer and larger chunks cost fewer meetings.
  static constexpr size_t kChunkBytes = 64 * 1024;
  static constexpr size_t kLargeChunkBytes = 128 * 1024;
  // Of data that is one chunk otherwise, where some ranks only write and others only read: they do so at the same time.
  static constexpr size_t kOneWayBytes = 16 * 1024;

  // element: of at most 8 bytes, for which the smallest slot area has room (Arena::least_slot_bytes). one_way: as above.
  StreamPlan(size_t bytes, size_t parts, size_t element, size_t slot_bytes, bool one_way)
      : bytes_(bytes), parts_(parts) {
    const size_t all = bytes * parts;
    const size_t whole = one_way ? kOneWayBytes : kChunkBytes;
    const size_t most = all <= kChunkBytes ? whole : all < kPastCachesBytes ? kChunkBytes : kLargeChunkBytes;
    const size_t room = std::min(most, slot_bytes / kDepth) / parts;
    const size_t unit = room >= kCacheLine ? kCacheLine : element;
    piece_ = inlined() || all <= std::min(slot_bytes, whole) ? bytes : room / unit * unit;
  }

  // One at least: ranks that differ must notice it.
  size_t chunks() const { return bytes_ == 0 ? 1 : (bytes_ + piece_ - 1) / piece_; }
  // Of each part of a chunk.
  size_t piece_bytes() const { return piece_; }
  // From the beginning of a slot area.
  size_t part_at(size_t c, size_t part) const { return (c % kDepth * parts_ + part) * piece_; }
  bool inlined() const { return bytes_ <= Arena::kInlineBytes; }

 private:
  size_t bytes_;
  size_t parts_;
  size_t piece_;
};

// What a rank does in a stream.
enum class StreamRole { writes, reads, both };

// write(c) puts chunk c into this rank's slots, meanwhile(c) is what it does then for itself, and read(c) takes what the
// others have put into theirs. The stage is over then.
template <typename Write, typename Meanwhile, typename Read>
void run_slot_stream(Stage* stage, StreamRole role, size_t chunks, Write write, Meanwhile meanwhile, Read read) {
  const auto write_and_post = [&](size_t c) {
    write(c);
    stage->post();
    meanwhile(c);
  };
  if (role == StreamRole::both) {
    // Who posts chunk c-1 has read chunk c-3 before, over which this rank writes chunk c+1 after it has seen that post.
    write_and_post(0);
    for (size_t c = 0; c < chunks; ++c) {
      if (c + 1 < chunks) write_and_post(c + 1);
      stage->wait(c + 1);
      read(c);
    }
  } else if (role == StreamRole::writes) {
    for (size_t c = 0; c < chunks; ++c) {
      if (c >= StreamPlan::kDepth) stage->wait(c + 1 - StreamPlan::kDepth);
      write_and_post(c);
    }
  } else {
    for (size_t c = 0; c < chunks; ++c) {
      meanwhile(c);
      stage->wait(c + 1);
      read(c);
      // Those that write over it want to know.
      if (c + StreamPlan::kDepth < chunks) stage->post();
    }
  }
  stage->finish(chunks);
}

}  // namespace ccore
