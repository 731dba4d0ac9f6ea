#include "schedule/schedules.h"

namespace ccore {

Schedule dissemination_barrier(int rank, int nranks) {
  Schedule schedule;
  schedule.rank = rank;
  schedule.nranks = nranks;
  for (int distance = 1; distance < nranks; distance *= 2) {
    Step step;
    step.send_peer = (rank + distance) % nranks;
    step.send_block = 0;
    step.send_after = static_cast<int>(schedule.steps.size()) - 1;
    step.recv_peer = (rank - distance + nranks) % nranks;
    step.recv_block = 0;
    schedule.steps.push_back(step);
  }
  return schedule;
}

}  // namespace ccore
