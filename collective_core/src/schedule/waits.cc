#include "schedule/schedule.h"

namespace ccore {

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

Schedule halved(const Schedule& schedule) {
  Schedule finer = schedule;
  finer.nblocks = 2 * schedule.nblocks;
  finer.steps.clear();
  for (const Step& step : schedule.steps) {
    for (int half = 0; half < 2; ++half) {
      Step part = step;
      if (step.send_peer != kNone) part.send_block = 2 * step.send_block + half;
      if (step.recv_peer != kNone) part.recv_block = 2 * step.recv_block + half;
      if (step.send_after != kNone) part.send_after = 2 * step.send_after + half;
      part.continues = step.continues || half > 0;
      finer.steps.push_back(part);
    }
  }
  return finer;
}

}  // namespace ccore
