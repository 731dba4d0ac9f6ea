#include "collectives/all_reduce/all_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/shm/fold.h"
#include "collectives/shm/stage.h"
#include "common/caches.h"
#include "common/dtype.h"

namespace ccore {
namespace {

void count_bytes(const Context& context, const Stage& stage, size_t bytes) {
  for (int member = 0; member < context.nranks; ++member) {
    if (member == context.rank) continue;
    stage.count_sent(member, bytes);
    stage.count_received(member, bytes);
  }
}

void reduce_piece(const Context& context, const void* send, void* recv, size_t count, const Reduction& reduction) {
  const size_t bytes = count * reduction.element_bytes;
  const bool inlined = bytes <= Arena::kInlineBytes;
  Stage stage(context, inlined ? Stage::Data::inlined : Stage::Data::slots);
  if (inlined) stage.ring_later();
  const auto* own = static_cast<const std::byte*>(send);
  // In place, the third rank's own part would be gone before its turn. Then the copy is what it reads.
  std::array<std::byte, Arena::kInlineBytes> copy;
  const bool overwrites = send == recv && context.rank >= 2;
  if (inlined) {
    if (bytes > 0 && overwrites) own = static_cast<const std::byte*>(std::memcpy(copy.data(), send, bytes));
    stage.post_inlined(own, bytes);
  } else {
    copy_into_caches(stage.slot(), own, bytes);
    if (overwrites) own = stage.slot();
    stage.post();
  }
  stage.wait(1);
  fold(static_cast<std::byte*>(recv), count, context.nranks, reduction, context.average_over(), [&](int member) {
    if (member == context.rank) return own;
    return inlined ? stage.inlined_of(member) : stage.slot_of(member);
  });
  if (context.takes_over && !inlined && context.nranks == 2) take_over(stage.slot_of(1 - context.rank), bytes);
  stage.finish();
  count_bytes(context, stage, bytes);
}

}  // namespace

void all_reduce_oneshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op) {
  const size_t element = dtype_size(dtype);
  const Reduction reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element};
  const size_t most = context.arena->slot_bytes() / element;
  size_t done = 0;
  do {  // once at least: ranks that differ must notice it
    const size_t n = std::min(most, count - done);
    reduce_piece(context, static_cast<const std::byte*>(send) + done * element,
                 static_cast<std::byte*>(recv) + done * element, n, reduction);
    done += n;
  } while (done < count);
}

}  // namespace ccore
