#include "collectives/gather/gather.h"

#include <cstring>

#include "collectives/links/stream.h"
#include "schedule/schedules.h"

namespace ccore {

void gather_direct(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  auto* output = static_cast<std::byte*>(recv);
  if (context.rank == root && bytes > 0) {
    std::byte* own = output + static_cast<size_t>(root) * bytes;
    if (own != send) std::memcpy(own, send, bytes);
  }
  std::vector<StreamStep> steps;
  for (const Step& step : direct_gather(context.rank, context.nranks, root).steps) {
    StreamStep s;
    s.send_peer = step.send_peer;
    s.send_from = static_cast<const std::byte*>(send);
    s.send_bytes = step.send_peer == kNone ? 0 : bytes;
    s.recv_peer = step.recv_peer;
    if (step.recv_peer != kNone) {
      s.recv_to = output + static_cast<size_t>(step.recv_block) * bytes;
      s.recv_bytes = bytes;
    }
    steps.push_back(s);
  }
  run_stream(context, steps, Reduction{});
}

}  // namespace ccore
