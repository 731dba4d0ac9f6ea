#include "collectives/barrier/barrier.h"

#include "collectives/links/stream.h"
#include "schedule/schedules.h"

namespace ccore {

void barrier_dissemination(const Context& context) {
  std::byte token{1};
  std::vector<StreamStep> steps;
  for (const Step& step : dissemination_barrier(context.rank, context.nranks).steps) {
    StreamStep s;
    s.send_peer = step.send_peer;
    s.send_from = &token;
    s.send_bytes = 1;
    s.send_after = step.send_after;
    s.recv_peer = step.recv_peer;
    s.recv_to = &token;
    s.recv_bytes = 1;
    steps.push_back(s);
  }
  run_stream(context, steps, Reduction{});
}

}  // namespace ccore
