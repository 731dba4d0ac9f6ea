#include "collectives/reduce/reduce.h"

#include "collectives/links/stream.h"
#include "common/dtype.h"
#include "schedule/schedules.h"

namespace ccore {

void reduce_tree(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                 int root) {
  const size_t element = dtype_size(dtype);
  const size_t bytes = count * element;
  const auto* input = static_cast<const std::byte*>(send);
  const Schedule schedule = context.with_ranks(tree_reduce(context.place(), context.nranks, context.place_of(root)));
  // A rank between the root and the leaves has nowhere else to keep what it has folded so far.
  const bool folds_for_another = context.rank != root && schedule.steps.size() > 1;
  std::vector<std::byte> scratch(folds_for_another ? bytes : 0);
  std::byte* output = context.rank == root ? static_cast<std::byte*>(recv) : scratch.data();
  std::vector<StreamStep> steps;
  for (const Step& step : schedule.steps) {
    const bool first = steps.empty();  // until a part has come, the input is what is held
    StreamStep s;
    s.send_peer = step.send_peer;
    s.send_from = first ? input : output;
    s.send_bytes = step.send_peer == kNone ? 0 : bytes;
    s.send_after = step.send_after;
    s.recv_peer = step.recv_peer;
    s.recv_to = output;
    s.local = first ? input : output;
    s.recv_bytes = step.recv_peer == kNone ? 0 : bytes;
    s.action = step.action;
    s.completes = step.completes;
    steps.push_back(s);
  }
  run_stream(context, steps, Reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element});
}

}  // namespace ccore
