#include "collectives/all_reduce/all_reduce.h"

#include "collectives/links/stream.h"
#include "common/dtype.h"
#include "schedule/schedules.h"

namespace ccore {

void all_reduce_ring(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op) {
  const size_t element = dtype_size(dtype);
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
  const Schedule schedule = context.with_ranks(ring_all_reduce(context.place(), context.nranks));
  std::vector<StreamStep> steps;
  for (const Step& step : schedule.steps) {
    const Block out = block_of(count, schedule.nblocks, step.send_block);
    const Block in = block_of(count, schedule.nblocks, step.recv_block);
    StreamStep s;
    s.send_peer = step.send_peer;
    s.send_from = (step.send_after == kNone ? input : output) + out.begin * element;
    s.send_bytes = out.count * element;
    s.send_after = step.send_after;
    s.recv_peer = step.recv_peer;
    // Partial sums live in the output. The complete block that later overwrites one cannot arrive before the
    // partial sum has left: it is made of it.
    s.recv_to = output + in.begin * element;
    s.local = input + in.begin * element;
    s.recv_bytes = in.count * element;
    s.action = step.action;
    s.completes = step.completes;
    steps.push_back(s);
  }
  run_stream(context, steps, Reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element});
}

}  // namespace ccore
