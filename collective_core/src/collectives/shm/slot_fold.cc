#include "collectives/shm/slot_fold.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "collectives/shm/fold.h"
#include "collectives/shm/stage.h"
#include "common/caches.h"
#include "common/dtype.h"
#include "schedule/schedule.h"

namespace ccore {
namespace {

// Chunk by chunk: while one chunk is reduced, the next is written and the one before is collected, so that ranks seldom
// wait and the slots stay in the caches.

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

}  // namespace

void fold_in_slots(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                   int root) {
  const size_t element = dtype_size(dtype);
  const Reduction reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element};
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
  // In place the line that is overwritten has just been read.
  const auto copy = send != recv && count * element >= context.past_caches_bytes ? copy_past_caches : copy_into_caches;
  const auto wants = [root](int member) { return root == kNone || member == root; };
  const bool wanted_here = wants(context.rank);
  const SlotPlan plan(count, element, context.nranks, context.arena->slot_bytes());
  Stage stage(context, Stage::Data::returned);
  const auto parts = [&](size_t c) {
    for (int member = 0; member < context.nranks; ++member) {
      if (member == context.rank) continue;
      const Block block = plan.block(c, member);
      if (block.count == 0) continue;  // of nothing at all there is no address either
      copy_into_caches(stage.slot() + plan.part_at(c, member), input + block.begin * element, block.count * element);
      stage.count_sent(member, block.count * element);
    }
  };
  alignas(64) std::array<std::byte, kFoldBytes> held;
  // Of two ranks the other's part is read once: the sum is made where it was.
  const bool in_place = context.nranks == 2 && wants(1 - context.rank);
  const auto blocks = [&](size_t c) {
    const Block block = plan.block(c, context.rank);
    const size_t part_at = plan.part_at(c, context.rank);
    // A piece goes on to the output, and back to those who gave parts of it, while it is in the first-level cache.
    const size_t most = kFoldBytes / element;
    for (size_t done = 0; done < block.count; done += most) {
      const size_t n = std::min(most, block.count - done);
      const size_t at = done * element;
      std::byte* sum = in_place ? stage.slot_of(1 - context.rank) + part_at + at : held.data();
      fold(sum, n, context.nranks, reduction, context.average_over(), [&](int member) -> const std::byte* {
        if (member == context.rank) return input + block.begin * element + at;
        return stage.slot_of(member) + part_at + at;
      });
      if (wanted_here) copy(output + block.begin * element + at, sum, n * element);
      for (int member = 0; member < context.nranks && !in_place; ++member) {
        if (member == context.rank || !wants(member)) continue;
        copy_into_caches(stage.slot_of(member) + part_at + at, sum, n * element);
      }
    }
    for (int member = 0; member < context.nranks; ++member) {
      if (member == context.rank) continue;
      stage.count_received(member, block.count * element);
      if (wants(member)) stage.count_sent(member, block.count * element);
    }
  };
  const auto collect = [&](size_t c) {
    for (int member = 0; wanted_here && member < context.nranks; ++member) {
      if (member == context.rank) continue;
      const Block block = plan.block(c, member);
      if (block.count == 0) continue;
      copy(output + block.begin * element, stage.slot() + plan.part_at(c, member), block.count * element);
      stage.count_received(member, block.count * element);
    }
  };
  // One chunk at least: ranks that differ must notice it.
  run_slot_pipeline(&stage, std::max<size_t>(plan.chunks(), 1), parts, blocks, collect);
  stage.finish();
}

}  // namespace ccore
