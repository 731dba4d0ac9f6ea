#include "schedule/schedule.h"

#include <algorithm>

namespace ccore {

Block block_of(size_t count, int nblocks, int block) {
  const auto n = static_cast<size_t>(nblocks);
  const auto b = static_cast<size_t>(block);
  const size_t small = count / n;
  const size_t larger = count % n;
  return Block{b * small + std::min(b, larger), small + (b < larger ? 1 : 0)};
}

std::vector<Waits> waits_of(const Schedule& schedule) {
  struct Last {
    int recv = kNone;
    int send = kNone;
  };
  std::vector<Last> last(static_cast<size_t>(schedule.nblocks));
  std::vector<Waits> waits(schedule.steps.size());
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    const Step& step = schedule.steps[k];
    const auto now = static_cast<int>(k);
    const bool sends = step.send_peer != kNone;
    // What a step passes on in the moment in which it receives it does not wait for itself.
    if (sends && step.send_after != now) last[static_cast<size_t>(step.send_block)].send = now;
    if (step.recv_peer == kNone) continue;
    Last& of_block = last[static_cast<size_t>(step.recv_block)];
    const bool other_lane =
        of_block.recv != kNone && schedule.steps[static_cast<size_t>(of_block.recv)].lane != step.lane;
    waits[k].recv_after_recv = other_lane ? of_block.recv : kNone;
    waits[k].recv_after_send = of_block.send;
    of_block.recv = now;
    if (sends && step.send_after == now) last[static_cast<size_t>(step.send_block)].send = now;
  }
  return waits;
}

}  // namespace ccore
