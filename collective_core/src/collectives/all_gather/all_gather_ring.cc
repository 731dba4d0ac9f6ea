#include "collectives/all_gather/all_gather_ring.h"

#include <cstring>

#include "collectives/stream.h"
#include "common/dtype.h"
#include "schedule/ring.h"

namespace ccore {

void all_gather_ring(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype) {
  const size_t bytes = count * dtype_size(dtype);
  auto* output = static_cast<std::byte*>(recv);
  std::byte* own = output + static_cast<size_t>(context.rank) * bytes;
  if (own != send && bytes > 0) std::memcpy(own, send, bytes);
  const Schedule schedule = ring_all_gather(context.rank, context.nranks);
  std::vector<StreamStep> steps;
  for (const Step& step : schedule.steps) {
    StreamStep s;
    s.send_peer = step.send_peer;
    s.send_from = output + static_cast<size_t>(step.send_block) * bytes;
    s.send_bytes = bytes;
    s.send_after = step.send_after;
    s.recv_peer = step.recv_peer;
    s.recv_to = output + static_cast<size_t>(step.recv_block) * bytes;
    s.recv_bytes = bytes;
    steps.push_back(s);
  }
  run_stream(context, steps, Reduction{});
}

}  // namespace ccore
