#include "collectives/all_reduce/all_reduce.h"

#include "collectives/links/stream.h"
#include "common/dtype.h"
#include "schedule/schedules.h"

namespace ccore {

void all_reduce_scheduled(const Context& context, const Schedule& schedule, const void* send, void* recv, size_t count,
                          cc_dtype dtype, cc_redop op) {
  const size_t element = dtype_size(dtype);
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
  const std::vector<Waits> waits = waits_of(schedule);
  // Whether the output has something of the block; before that, the input is what this rank holds.
  std::vector<bool> in_output(static_cast<size_t>(schedule.nblocks));
  std::vector<StreamStep> steps;
  steps.reserve(schedule.steps.size());
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    const Step& step = schedule.steps[k];
    StreamStep s;
    s.lane = step.lane;
    s.send_peer = step.send_peer;
    if (step.send_peer != kNone) {
      const Block block = block_of(count, schedule.nblocks, step.send_block);
      s.send_from = (step.send_after == kNone ? input : output) + block.begin * element;
      s.send_bytes = block.count * element;
      s.send_after = step.send_after;
    }
    s.recv_peer = step.recv_peer;
    if (step.recv_peer != kNone) {
      const Block block = block_of(count, schedule.nblocks, step.recv_block);
      const bool folds = step.action != Action::reduce && in_output[static_cast<size_t>(step.recv_block)];
      s.recv_to = output + block.begin * element;
      s.local = (folds ? output : input) + block.begin * element;
      s.recv_bytes = block.count * element;
      s.action = step.action;
      s.completes = step.completes;
      s.recv_after_send = waits[k].recv_after_send;
      s.recv_after_recv = waits[k].recv_after_recv;
      in_output[static_cast<size_t>(step.recv_block)] = true;
    }
    steps.push_back(s);
  }
  run_stream(context, steps, Reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element});
}

void all_reduce_halving(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op) {
  all_reduce_scheduled(context, context.with_ranks(halving_all_reduce(context.place(), context.nranks)), send, recv,
                       count, dtype, op);
}

void all_reduce_direct(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                       cc_redop op) {
  all_reduce_scheduled(context, direct_all_reduce(context.rank, context.nranks), send, recv, count, dtype, op);
}

}  // namespace ccore
