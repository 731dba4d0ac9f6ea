#include "collectives/reduce_scatter/reduce_scatter.h"

#include "collectives/links/stream.h"
#include "common/dtype.h"
#include "schedule/schedules.h"

namespace ccore {

void reduce_scatter_ring(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                         cc_redop op) {
  const size_t element = dtype_size(dtype);
  const size_t bytes = count * element;
  const auto* input = static_cast<const std::byte*>(send);
  const Schedule schedule = context.with_ranks(ring_reduce_scatter(context.place(), context.nranks));
  const int last = static_cast<int>(schedule.steps.size()) - 1;
  // Two places for partial sums: one is filled while the other leaves.
  std::vector<std::byte> scratch(schedule.steps.size() > 1 ? 2 * bytes : 0);
  const auto block = [&](int place) { return input + static_cast<size_t>(context.rank_at(place)) * bytes; };
  const auto partial = [&](int step) { return scratch.data() + static_cast<size_t>(step % 2) * bytes; };
  std::vector<StreamStep> steps;
  for (int k = 0; k <= last; ++k) {
    const Step& step = schedule.steps[static_cast<size_t>(k)];
    StreamStep s;
    s.send_peer = step.send_peer;
    s.send_from = step.send_after == kNone ? block(step.send_block) : partial(step.send_after);
    s.send_bytes = bytes;
    s.send_after = step.send_after;
    s.recv_peer = step.recv_peer;
    s.recv_to = k == last ? static_cast<std::byte*>(recv) : partial(k);
    s.local = block(step.recv_block);
    s.recv_bytes = bytes;
    s.action = step.action;
    s.completes = step.completes;
    // partial(k) held the sum of step k-2, which leaves in step k-1.
    s.recv_after_send = k >= 2 && k != last ? k - 1 : kNone;
    steps.push_back(s);
  }
  run_stream(context, steps, Reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element});
}

}  // namespace ccore
