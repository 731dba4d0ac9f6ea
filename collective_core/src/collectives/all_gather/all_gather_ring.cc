#include "collectives/all_gather/all_gather.h"

#include <cstring>

#include "collectives/links/stream.h"
#include "schedule/schedules.h"

namespace ccore {

void all_gather_ring(const Context& context, const void* send, void* recv, const std::vector<Block>& blocks) {
  const Block& mine = blocks[static_cast<size_t>(context.rank)];
  auto* output = static_cast<std::byte*>(recv);
  if (mine.count > 0 && output + mine.begin != send) std::memcpy(output + mine.begin, send, mine.count);
  const Schedule schedule = context.with_ranks(ring_all_gather(context.place(), context.nranks));
  std::vector<StreamStep> steps;
  for (const Step& step : schedule.steps) {
    const Block& leaves = blocks[static_cast<size_t>(context.rank_at(step.send_block))];
    const Block& comes = blocks[static_cast<size_t>(context.rank_at(step.recv_block))];
    StreamStep s;
    s.send_peer = step.send_peer;
    s.send_from = leaves.count > 0 ? output + leaves.begin : nullptr;
    s.send_bytes = leaves.count;
    s.send_after = step.send_after;
    s.recv_peer = step.recv_peer;
    s.recv_to = comes.count > 0 ? output + comes.begin : nullptr;
    s.recv_bytes = comes.count;
    steps.push_back(s);
  }
  run_stream(context, steps, Reduction{});
}

}  // namespace ccore
