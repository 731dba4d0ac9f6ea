#include "schedule/schedules.h"

namespace ccore {

Schedule chain_reduce(int rank, int nranks, int root, int nblocks) {
  Schedule schedule;
  schedule.rank = rank;
  schedule.nranks = nranks;
  schedule.nblocks = nblocks;
  const int place = (rank - root + nranks) % nranks;  // data flows toward place 0
  if (nranks == 1) return schedule;
  for (int block = 0; block < nblocks; ++block) {
    Step step;
    if (place < nranks - 1) {
      step.recv_peer = (rank + 1) % nranks;
      step.recv_block = block;
      step.action = Action::reduce;
      step.completes = place == 0;
    }
    if (place > 0) {
      step.send_peer = (rank - 1 + nranks) % nranks;
      step.send_block = block;
      step.send_after = place < nranks - 1 ? block : kNone;
    }
    schedule.steps.push_back(step);
  }
  return schedule;
}

Schedule tree_reduce(int rank, int nranks, int root) {
  Schedule schedule;
  schedule.rank = rank;
  schedule.nranks = nranks;
  const int place = (rank - root + nranks) % nranks;
  // Round with distance d: of the places that are multiples of d, the odd ones give theirs to the even ones.
  for (int distance = 1; distance < nranks; distance *= 2) {
    Step step;
    if (place % (2 * distance) == distance) {
      step.send_peer = (place - distance + root) % nranks;
      step.send_block = 0;
      step.send_after = static_cast<int>(schedule.steps.size()) - 1;  // kNone for a leaf
      schedule.steps.push_back(step);
      return schedule;
    }
    if (place + distance >= nranks) continue;
    step.recv_peer = (place + distance + root) % nranks;
    step.recv_block = 0;
    step.action = Action::fold_above;
    step.completes = place == 0 && 2 * distance >= nranks;
    schedule.steps.push_back(step);
  }
  return schedule;
}

}  // namespace ccore
