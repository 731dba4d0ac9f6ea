#include "collectives/scatter/scatter.h"

#include <cstring>

#include "collectives/links/stream.h"
#include "schedule/schedules.h"

namespace ccore {

void scatter_direct(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  const auto* input = static_cast<const std::byte*>(send);
  if (context.rank == root && bytes > 0) {
    const std::byte* own = input + static_cast<size_t>(root) * bytes;
    if (own != recv) std::memcpy(recv, own, bytes);
  }
  std::vector<StreamStep> steps;
  for (const Step& step : direct_scatter(context.rank, context.nranks, root).steps) {
    StreamStep s;
    s.send_peer = step.send_peer;
    if (step.send_peer != kNone) {
      s.send_from = input + static_cast<size_t>(step.send_block) * bytes;
      s.send_bytes = bytes;
    }
    s.recv_peer = step.recv_peer;
    s.recv_to = static_cast<std::byte*>(recv);
    s.recv_bytes = step.recv_peer == kNone ? 0 : bytes;
    steps.push_back(s);
  }
  run_stream(context, steps, Reduction{});
}

}  // namespace ccore
