#include "schedule/schedules.h"

namespace ccore {
namespace {

int wrap(int block, int nranks) { return ((block % nranks) + nranks) % nranks; }

Schedule empty(int rank, int nranks) {
  Schedule schedule;
  schedule.rank = rank;
  schedule.nranks = nranks;
  schedule.nblocks = nranks;
  return schedule;
}

Step neighbours(int rank, int nranks) {
  Step step;
  step.send_peer = wrap(rank + 1, nranks);
  step.recv_peer = wrap(rank - 1, nranks);
  return step;
}

void add_reduce_scatter(Schedule* schedule) {
  const int p = schedule->nranks;
  for (int k = 0; k < p - 1; ++k) {
    Step step = neighbours(schedule->rank, p);
    // Block b starts at rank b+1 and walks the ring once; it ends, complete, at rank b.
    step.send_block = wrap(schedule->rank - 1 - k, p);
    step.send_after = k == 0 ? kNone : k - 1;
    step.recv_block = wrap(schedule->rank - 2 - k, p);
    step.action = Action::reduce;
    step.completes = k == p - 2;
    schedule->steps.push_back(step);
  }
}

void add_all_gather(Schedule* schedule) {
  const int p = schedule->nranks;
  const int before = static_cast<int>(schedule->steps.size());
  for (int k = 0; k < p - 1; ++k) {
    Step step = neighbours(schedule->rank, p);
    step.send_block = wrap(schedule->rank - k, p);
    step.send_after = before + k - 1;  // kNone for the first step of a plain all-gather
    step.recv_block = wrap(schedule->rank - 1 - k, p);
    schedule->steps.push_back(step);
  }
}

}  // namespace

Schedule ring_reduce_scatter(int rank, int nranks) {
  Schedule schedule = empty(rank, nranks);
  add_reduce_scatter(&schedule);
  return schedule;
}

Schedule ring_all_gather(int rank, int nranks) {
  Schedule schedule = empty(rank, nranks);
  add_all_gather(&schedule);
  return schedule;
}

Schedule ring_all_reduce(int rank, int nranks) {
  Schedule schedule = empty(rank, nranks);
  add_reduce_scatter(&schedule);
  add_all_gather(&schedule);
  return schedule;
}

}  // namespace ccore
