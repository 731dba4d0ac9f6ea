// Large data through the slot areas of a node, chunk by chunk: while one chunk is reduced, the next is written and the
// one before is collected, so that ranks seldom wait and the slots stay in the caches.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/stage.h"
#include "common/copy_past_caches.h"
#include "schedule/schedule.h"

namespace ccore {

// How `count` elements are cut into chunks, and where a chunk lies in a slot area: the parts that its rank has for
// the others, which come back summed in the same place.
class SlotPlan {
 public:
  // Chunks in flight: one that is written, one that is reduced, one that is collected.
  static constexpr size_t kDepth = 3;
  // Of one rank's block of a chunk. The parts of all chunks in flight fit the second-level cache beside data that fits
  // it too; where that does not, fewer and larger chunks cost fewer meetings.
  static constexpr size_t kBlockBytes = 64 * 1024;
  static constexpr size_t kLargeBlockBytes = 128 * 1024;

  SlotPlan(size_t count, size_t element, int nranks, size_t slot_bytes)
      : count_(count), element_(element), nranks_(nranks) {
    const auto p = static_cast<size_t>(nranks);
    const size_t most = count * element >= kPastCachesBytes ? kLargeBlockBytes : kBlockBytes;
    block_elements_ = std::min(most, slot_bytes / (kDepth * p)) / element;
    chunk_elements_ = p * block_elements_;
  }

  size_t chunks() const { return (count_ + chunk_elements_ - 1) / chunk_elements_; }
  // In elements of the whole.
  Block chunk(size_t c) const {
    const size_t begin = c * chunk_elements_;
    return Block{begin, std::min(chunk_elements_, count_ - begin)};
  }
  // Of the chunk, in elements of the whole.
  Block block(size_t c, int rank) const {
    const Block whole = chunk(c);
    const Block part = block_of(whole.count, nranks_, rank);
    return Block{whole.begin + part.begin, part.count};
  }
  // Bytes from the beginning of a slot area to the part for `rank`.
  size_t part_at(size_t c, int rank) const {
    return (c % kDepth * chunk_elements_ + block(c, rank).begin - chunk(c).begin) * element_;
  }

 private:
  size_t count_;
  size_t element_;
  int nranks_;
  size_t block_elements_;
  size_t chunk_elements_;
};

// parts(c) writes into the own slot what the others need of chunk c, blocks(c) makes this rank's block of it of what they
// wrote and puts it back where it was, and collect(c) reads the own slot. So a slot is written over when its rank has read it.
template <typename Parts, typename Blocks, typename Collect>
void run_slot_pipeline(Stage* stage, size_t chunks, Parts parts, Blocks blocks, Collect collect) {
  // The number of the post after parts(c) and after blocks(c), in the order of the loop below.
  const auto parts_post = [](size_t c) { return c == 0 ? 1 : 2 * c; };
  const auto blocks_post = [chunks](size_t c) { return std::min(2 * c + 3, 2 * chunks); };
  if (chunks > 0) {
    parts(0);
    stage->post();
  }
  for (size_t c = 0; c < chunks + 1; ++c) {
    if (c + 1 < chunks) {
      parts(c + 1);
      stage->post();
    }
    if (c < chunks) {
      stage->wait(parts_post(c));
      blocks(c);
      stage->post();
    }
    if (c >= 1) {
      stage->wait(blocks_post(c - 1));
      collect(c - 1);
    }
  }
}

}  // namespace ccore
