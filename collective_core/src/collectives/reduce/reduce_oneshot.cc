#include "collectives/reduce/reduce.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/shm/fold.h"
#include "collectives/shm/slot_stream.h"
#include "common/caches.h"
#include "common/dtype.h"

namespace ccore {

void reduce_oneshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                    int root) {
  const size_t element = dtype_size(dtype);
  const size_t bytes = count * element;
  const Reduction reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element};
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
  const bool is_root = context.rank == root;
  const StreamPlan plan(bytes, 1, element, context.arena->slot_bytes(), true);
  Stage stage(context, plan.inlined() || is_root ? Stage::Data::inlined : Stage::Data::slots, root);
  const size_t piece = plan.piece_bytes();
  const auto bytes_of = [&](size_t c) { return std::min(piece, bytes - c * piece); };
  const auto write = [&](size_t c) {
    copy_into_caches(stage.slot() + plan.part_at(c, 0), input + c * piece, bytes_of(c));
  };
  // In place, the own part of a rank after the second would be gone before its turn.
  const bool overwrites = input == output && root >= 2;
  alignas(64) std::array<std::byte, kFoldBytes> sum;
  const auto read = [&](size_t c) {
    const size_t most = kFoldBytes / element * element;
    for (size_t done = 0; done < bytes_of(c); done += most) {
      const size_t n = std::min(most, bytes_of(c) - done);
      const size_t at = c * piece + done;
      fold(overwrites ? sum.data() : output + at, n / element, context.nranks, reduction, context.average_over(),
           [&](int member) {
             if (member == context.rank) return input + at;
             return plan.inlined() ? stage.inlined_of(member) : stage.slot_of(member) + plan.part_at(c, 0) + done;
           });
      if (overwrites) std::memcpy(output + at, sum.data(), n);
      for (int member = 0; context.takes_over && !plan.inlined() && member < context.nranks; ++member) {
        if (member != context.rank) take_over(stage.slot_of(member) + plan.part_at(c, 0) + done, n);
      }
    }
  };
  for (int member = 0; member < context.nranks; ++member) {
    if (!stage.meets(member)) continue;
    if (is_root) stage.count_received(member, bytes);
    if (!is_root) stage.count_sent(member, bytes);
  }
  if (!plan.inlined()) {
    const StreamRole role = is_root ? StreamRole::reads : StreamRole::writes;
    return run_slot_stream(&stage, role, plan.chunks(), write, [](size_t) {}, read);
  }
  if (is_root) {
    stage.wait(1);
    read(0);
  } else {
    stage.post_inlined(input, bytes);
  }
  stage.finish(1);
}

}  // namespace ccore
