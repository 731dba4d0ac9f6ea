#include "collectives/slot_fold.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/fold.h"
#include "collectives/slot_pipeline.h"
#include "common/copy_past_caches.h"
#include "common/dtype.h"

namespace ccore {

void fold_in_slots(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                   int root) {
  const size_t element = dtype_size(dtype);
  const Reduction reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element};
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
  // In place the line that is overwritten has just been read.
  const auto copy = send != recv && count * element >= kPastCachesBytes ? copy_past_caches : copy_into_caches;
  const auto wants = [root](int member) { return root == kNone || member == root; };
  const bool wanted_here = wants(context.rank);
  const SlotPlan plan(count, element, context.nranks, context.arena->slot_bytes());
  Stage stage(context, Stage::Data::returned);
  const auto parts = [&](size_t c) {
    for (int member = 0; member < context.nranks; ++member) {
      if (member == context.rank) continue;
      const Block block = plan.block(c, member);
      if (block.count == 0) continue;  // of nothing at all there is no address either
      std::memcpy(stage.slot() + plan.part_at(c, member), input + block.begin * element, block.count * element);
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
        std::memcpy(stage.slot_of(member) + part_at + at, sum, n * element);
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
