#include "collectives/reduce/reduce_twoshot.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/fold.h"
#include "collectives/slot_pipeline.h"
#include "common/dtype.h"

namespace ccore {

void reduce_twoshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                    int root) {
  const size_t element = dtype_size(dtype);
  const Reduction reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element};
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
  const bool is_root = context.rank == root;
  // In place the line that is overwritten has just been read.
  const auto copy = send != recv && count * element >= kPastCachesBytes ? copy_past_caches : copy_into_caches;
  const SlotPlan plan(count, element, context.nranks, context.arena->slot_bytes());
  Stage stage(context, Stage::Data::returned);
  const auto parts = [&](size_t c) {
    for (int member = 0; member < context.nranks; ++member) {
      if (member == context.rank) continue;
      const Block block = plan.block(c, member);
      std::memcpy(stage.slot() + plan.part_at(c, member), input + block.begin * element, block.count * element);
      stage.count_sent(member, block.count * element);
    }
  };
  alignas(64) std::array<std::byte, kFoldBytes> sum;
  const auto blocks = [&](size_t c) {
    const Block block = plan.block(c, context.rank);
    const size_t part_at = plan.part_at(c, context.rank);
    // A piece goes to the output, or to where the root's part of it was, while it is in the first-level cache.
    const size_t most = kFoldBytes / element;
    for (size_t done = 0; done < block.count; done += most) {
      const size_t n = std::min(most, block.count - done);
      const size_t at = done * element;
      fold(sum.data(), n, context.nranks, reduction, context.average_over(), [&](int member) -> const std::byte* {
        if (member == context.rank) return input + block.begin * element + at;
        return stage.slot_of(member) + part_at + at;
      });
      if (is_root) copy(output + block.begin * element + at, sum.data(), n * element);
      if (!is_root) std::memcpy(stage.slot_of(root) + part_at + at, sum.data(), n * element);
    }
    for (int member = 0; member < context.nranks; ++member) {
      if (member != context.rank) stage.count_received(member, block.count * element);
    }
    if (!is_root) stage.count_sent(root, block.count * element);
  };
  const auto collect = [&](size_t c) {
    for (int member = 0; is_root && member < context.nranks; ++member) {
      if (member == context.rank) continue;
      const Block block = plan.block(c, member);
      copy(output + block.begin * element, stage.slot() + plan.part_at(c, member), block.count * element);
      stage.count_received(member, block.count * element);
    }
  };
  run_slot_pipeline(&stage, std::max<size_t>(plan.chunks(), 1), parts, blocks, collect);
  stage.finish();
}

}  // namespace ccore
