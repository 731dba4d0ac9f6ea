#include "collectives/shm/cross_fold.h"

#include <utility>

namespace ccore {

CrossFold::CrossFold(const Context& context, std::vector<uint64_t> inputs, const void* send, const Reduction& reduction)
    : context_(context),
      inputs_(std::move(inputs)),
      send_(static_cast<const std::byte*>(send)),
      reduction_(reduction),
      held_(context.cross_memory->scratch(2 * kChunkBytes)),
      incoming_(held_ + kChunkBytes) {}

const std::byte* CrossFold::fold(size_t at, size_t count, std::byte* out) {
  std::byte* sum = out ? out : held_;
  // The first part of another rank goes where the sum will be, unless the own part is there: one place less to keep in
  // the caches.
  std::byte* first = sum == send_ + at ? held_ : sum;
  const std::byte* so_far = part_of(0, at, count, first);
  for (int member = 1; member < context_.nranks; ++member) {
    const std::byte* part = part_of(member, at, count, member == 1 && context_.rank == 0 ? first : incoming_);
    const ReduceFunction reduce = member + 1 == context_.nranks ? reduction_.last : reduction_.hop;
    reduce(sum, so_far, part, count, context_.average_over());
    so_far = sum;
  }
  return so_far;
}

const std::byte* CrossFold::part_of(int member, size_t at, size_t count, std::byte* to) const {
  if (member == context_.rank) return send_ + at;
  context_.cross_memory->read(context_.rank_of(member), to, inputs_[static_cast<size_t>(member)] + at,
                              count * reduction_.element_bytes);
  return to;
}

}  // namespace ccore
