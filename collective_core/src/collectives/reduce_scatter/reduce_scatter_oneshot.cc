#include "collectives/reduce_scatter/reduce_scatter.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/shm/fold.h"
#include "collectives/shm/slot_stream.h"
#include "common/caches.h"
#include "common/dtype.h"

namespace ccore {

void reduce_scatter_oneshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                            cc_redop op) {
  const size_t element = dtype_size(dtype);
  const size_t bytes = count * element;
  const Reduction reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element};
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
  const std::byte* own = input + static_cast<size_t>(context.rank) * bytes;
  const StreamPlan plan(bytes, static_cast<size_t>(context.nranks), element, context.arena->slot_bytes(), false);
  Stage stage(context, plan.inlined() ? Stage::Data::inlined : Stage::Data::slots);
  const size_t piece = plan.piece_bytes();
  const auto bytes_of = [&](size_t c) { return std::min(piece, bytes - c * piece); };
  const auto write = [&](size_t c) {
    for (int member = 0; member < context.nranks; ++member) {
      if (member == context.rank) continue;
      const std::byte* part = input + static_cast<size_t>(member) * bytes + c * piece;
      copy_into_caches(stage.slot() + plan.part_at(c, static_cast<size_t>(member)), part, bytes_of(c));
    }
  };
  // In place, the own part of a rank after the second would be gone before its turn.
  const bool overwrites = own == output && context.rank >= 2;
  alignas(64) std::array<std::byte, kFoldBytes> sum;
  const auto read = [&](size_t c) {
    const size_t part_at = plan.part_at(c, static_cast<size_t>(context.rank));
    const size_t most = kFoldBytes / element * element;
    for (size_t done = 0; done < bytes_of(c); done += most) {
      const size_t n = std::min(most, bytes_of(c) - done);
      const size_t at = c * piece + done;
      fold(overwrites ? sum.data() : output + at, n / element, context.nranks, reduction, context.average_over(),
           [&](int member) {
             if (member == context.rank) return own + at;
             return plan.inlined() ? stage.inlined_of(member) : stage.slot_of(member) + part_at + done;
           });
      if (overwrites) std::memcpy(output + at, sum.data(), n);
      for (int member = 0; context.takes_over && !plan.inlined() && member < context.nranks; ++member) {
        if (member != context.rank) take_over(stage.slot_of(member) + part_at + done, n);
      }
    }
  };
  for (int member = 0; member < context.nranks; ++member) {
    if (member == context.rank) continue;
    stage.count_sent(member, bytes);
    stage.count_received(member, bytes);
  }
  if (!plan.inlined()) return run_slot_stream(&stage, StreamRole::both, plan.chunks(), write, [](size_t) {}, read);
  stage.post_inlined([&](int member, std::byte* to) {
    if (bytes > 0) std::memcpy(to, input + static_cast<size_t>(member) * bytes, bytes);
  });
  stage.wait(1);
  read(0);
  stage.finish();
}

}  // namespace ccore
