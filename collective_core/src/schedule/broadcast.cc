#include "schedule/schedules.h"

namespace ccore {
namespace {

Schedule one_block(int rank, int nranks) {
  Schedule schedule;
  schedule.rank = rank;
  schedule.nranks = nranks;
  return schedule;
}

}  // namespace

Schedule chain_broadcast(int rank, int nranks, int root) {
  Schedule schedule = one_block(rank, nranks);
  const int place = (rank - root + nranks) % nranks;
  Step step;
  if (place > 0) {
    step.recv_peer = (rank - 1 + nranks) % nranks;
    step.recv_block = 0;
  }
  if (place < nranks - 1) {
    step.send_peer = (rank + 1) % nranks;
    step.send_block = 0;
    step.send_after = place > 0 ? 0 : kNone;
  }
  if (nranks > 1) schedule.steps.push_back(step);
  return schedule;
}

Schedule tree_broadcast(int rank, int nranks, int root) {
  Schedule schedule = one_block(rank, nranks);
  const int place = (rank - root + nranks) % nranks;
  // Round with distance d: places [0, d) have the data and send it to places [d, 2d).
  int received_at = kNone;
  for (int distance = 1; distance < nranks; distance *= 2) {
    Step step;
    if (place < distance && place + distance < nranks) {
      step.send_peer = (place + distance + root) % nranks;
      step.send_block = 0;
      step.send_after = received_at;
    } else if (place >= distance && place < 2 * distance) {
      step.recv_peer = (place - distance + root) % nranks;
      step.recv_block = 0;
      received_at = static_cast<int>(schedule.steps.size());
    } else {
      continue;
    }
    schedule.steps.push_back(step);
  }
  return schedule;
}

}  // namespace ccore
