#include "collectives/all_reduce/all_reduce.h"

#include "collectives/links/stream.h"
#include "common/dtype.h"
#include "schedule/schedules.h"

namespace ccore {

void all_reduce_doubling(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                         cc_redop op) {
  const size_t element = dtype_size(dtype);
  const size_t bytes = count * element;
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
  const Schedule schedule = context.with_ranks(doubling_all_reduce(context.place(), context.nranks));
  std::vector<StreamStep> steps;
  bool holds_partial = false;  // the output has a partial result; before that, the input is what is held
  int last_send = kNone;
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    const Step& step = schedule.steps[k];
    StreamStep s;
    s.send_peer = step.send_peer;
    s.send_from = holds_partial ? output : input;
    s.send_bytes = step.send_peer == kNone ? 0 : bytes;
    s.send_after = step.send_after;
    if (step.send_peer != kNone) last_send = static_cast<int>(k);
    s.recv_peer = step.recv_peer;
    s.recv_to = output;
    s.local = holds_partial ? output : input;
    s.recv_bytes = step.recv_peer == kNone ? 0 : bytes;
    s.action = step.action;
    s.completes = step.completes;
    // What leaves in this step leaves from the memory that this step's result goes to.
    s.recv_after_send = last_send;
    holds_partial = holds_partial || step.recv_peer != kNone;
    steps.push_back(s);
  }
  run_stream(context, steps, Reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element});
}

}  // namespace ccore
