#include "collectives/reduce/reduce.h"

#include <cstring>

#include "collectives/shm/cross_fold.h"
#include "collectives/shm/cross_offers.h"
#include "common/dtype.h"
#include "schedule/schedule.h"

namespace ccore {

void reduce_cma(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                int root) {
  const size_t element = dtype_size(dtype);
  const bool is_root = context.rank == root;
  auto* output = static_cast<std::byte*>(recv);
  Stage stage(context, Stage::Data::inlined);
  MutualAccess access(context);
  const Leaving all{static_cast<const std::byte*>(send), count * element};
  const bool reached = post_offers(&stage, context, [&](int) { return all; }, is_root ? recv : nullptr);
  stage.wait(1);
  if (!all_reached(stage, context) || !reached) {
    stage.finish();
    access.finish();
    return reduce_twoshot(context, send, recv, count, dtype, op, root);
  }
  const Reduction reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element};
  CrossFold fold(context, addresses_offered(stage, context), send, reduction);
  const uint64_t result = is_root ? 0 : offer_of(stage, root).result;
  // In place, the own part of a root after the second would be gone before its turn.
  const bool in_output = is_root && !(send == recv && root >= 2);
  const Block block = block_of(count, context.nranks, context.rank);
  for_each_chunk(context, block.count, element, [&](size_t first, size_t n) {
    const MutualAccess::Section inside(access);
    const size_t at = (block.begin + first) * element;
    const std::byte* sum = fold.fold(at, n, in_output ? output + at : nullptr);
    if (is_root) {
      if (!in_output) std::memcpy(output + at, sum, n * element);
      return;
    }
    inside.check();
    context.cross_memory->write(context.rank_of(root), result + at, sum, n * element);
  });
  for (int member = 0; member < context.nranks; ++member) {
    if (member == context.rank) continue;
    const size_t theirs = block_of(count, context.nranks, member).count * element;
    const size_t mine = block.count * element;
    stage.count_sent(member, theirs + (member == root ? mine : 0));
    stage.count_received(member, mine + (is_root ? theirs : 0));
  }
  stage.post();
  stage.wait(2);
  stage.finish();
  access.finish();
}

}  // namespace ccore
