#include "collectives/reduce_scatter/reduce_scatter.h"

#include <cstring>

#include "collectives/shm/cross_fold.h"
#include "collectives/shm/cross_offers.h"
#include "common/dtype.h"

namespace ccore {

void reduce_scatter_cma(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op) {
  const size_t element = dtype_size(dtype);
  const size_t bytes = count * element;
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
  Stage stage(context, Stage::Data::inlined);
  MutualAccess access(context);
  const Leaving all{input, bytes * static_cast<size_t>(context.nranks)};
  const bool reached = post_offers(&stage, context, [&](int) { return all; });
  stage.wait(1);
  if (!all_reached(stage, context) || !reached) {
    stage.finish();
    access.finish();
    return reduce_scatter_oneshot(context, send, recv, count, dtype, op);
  }
  const Reduction reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element};
  CrossFold fold(context, addresses_offered(stage, context), send, reduction);
  const size_t own_at = static_cast<size_t>(context.rank) * bytes;
  // In place, the own part of a rank after the second would be gone before its turn.
  const bool overwrites = input + own_at == output && context.rank >= 2;
  for_each_chunk(context, count, element, [&](size_t first, size_t n) {
    const MutualAccess::Section inside(access);
    std::byte* to = output + first * element;
    const std::byte* sum = fold.fold(own_at + first * element, n, overwrites ? nullptr : to);
    if (overwrites) std::memcpy(to, sum, n * element);
  });
  for (int member = 0; member < context.nranks; ++member) {
    if (member == context.rank) continue;
    stage.count_sent(member, bytes);
    stage.count_received(member, bytes);
  }
  stage.post();
  stage.wait(2);
  stage.finish();
  access.finish();
}

}  // namespace ccore
