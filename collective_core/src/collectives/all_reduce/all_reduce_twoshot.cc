#include "collectives/all_reduce/all_reduce_twoshot.h"

#include <array>
#include <cstring>

#include "collectives/all_reduce/registered.h"
#include "collectives/fold.h"
#include "collectives/slot_pipeline.h"
#include "common/copy_past_caches.h"
#include "common/dtype.h"
#include "transport/shm/windows.h"

namespace ccore {
void all_reduce_twoshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op) {
  const size_t element = dtype_size(dtype);
  if (context.windows && context.windows->any_direct() && count * element >= kLeastRegisteredBytes &&
      all_reduce_registered(context, send, recv, count, dtype, op)) {
    return;
  }
  const Reduction reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element};
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
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
  alignas(64) std::array<std::byte, kFoldBytes> held;
  const auto blocks = [&](size_t c) {
    const Block block = plan.block(c, context.rank);
    const size_t part_at = plan.part_at(c, context.rank);
    // A piece goes on to the output, and back to those who gave parts of it, while it is in the first-level cache.
    const size_t most = kFoldBytes / element;
    for (size_t done = 0; done < block.count; done += most) {
      const size_t n = std::min(most, block.count - done);
      const size_t at = done * element;
      // Two ranks: the sum is made where the part was.
      std::byte* sum = context.nranks == 2 ? stage.slot_of(1 - context.rank) + part_at + at : held.data();
      fold(sum, n, context.nranks, reduction, context.average_over(), [&](int member) -> const std::byte* {
        if (member == context.rank) return input + block.begin * element + at;
        return stage.slot_of(member) + part_at + at;
      });
      copy(output + block.begin * element + at, sum, n * element);
      for (int member = 0; member < context.nranks && context.nranks > 2; ++member) {
        if (member != context.rank) std::memcpy(stage.slot_of(member) + part_at + at, sum, n * element);
      }
    }
    for (int member = 0; member < context.nranks; ++member) {
      if (member == context.rank) continue;
      stage.count_received(member, block.count * element);
      stage.count_sent(member, block.count * element);
    }
  };
  const auto collect = [&](size_t c) {
    for (int member = 0; member < context.nranks; ++member) {
      if (member == context.rank) continue;
      const Block block = plan.block(c, member);
      copy(output + block.begin * element, stage.slot() + plan.part_at(c, member), block.count * element);
      stage.count_received(member, block.count * element);
    }
  };
  run_slot_pipeline(&stage, plan.chunks(), parts, blocks, collect);
  stage.finish();
}

}  // namespace ccore
