#include "collectives/broadcast/broadcast.h"

#include <cstring>

#include "collectives/links/stream.h"
#include "schedule/schedules.h"

namespace ccore {
namespace {

// One block, copied to the rank that is next.
void run_broadcast(const Context& context, const Schedule& schedule, const void* send, void* recv, size_t bytes,
                   int root) {
  if (context.rank == root && send != recv && bytes > 0) std::memcpy(recv, send, bytes);
  auto* data = static_cast<std::byte*>(recv);
  std::vector<StreamStep> steps;
  for (const Step& step : schedule.steps) {
    StreamStep s;
    s.send_peer = step.send_peer;
    s.send_from = data;
    s.send_bytes = step.send_peer == kNone ? 0 : bytes;
    s.send_after = step.send_after;
    s.recv_peer = step.recv_peer;
    s.recv_to = data;
    s.recv_bytes = step.recv_peer == kNone ? 0 : bytes;
    steps.push_back(s);
  }
  run_stream(context, steps, Reduction{});
}

}  // namespace

void broadcast_chain(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  run_broadcast(context, context.with_ranks(chain_broadcast(context.place(), context.nranks, context.place_of(root))),
                send, recv, bytes, root);
}

void broadcast_tree(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  run_broadcast(context, context.with_ranks(tree_broadcast(context.place(), context.nranks, context.place_of(root))),
                send, recv, bytes, root);
}

}  // namespace ccore
