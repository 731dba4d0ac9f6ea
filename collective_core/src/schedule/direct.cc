#include "schedule/schedules.h"

namespace ccore {
namespace {

Schedule empty(int rank, int nranks, int nblocks) {
  Schedule schedule;
  schedule.rank = rank;
  schedule.nranks = nranks;
  schedule.nblocks = nblocks;
  return schedule;
}

}  // namespace

Schedule direct_gather(int rank, int nranks, int root) {
  Schedule schedule = empty(rank, nranks, nranks);
  if (rank != root) {
    Step step;
    step.send_peer = root;
    step.send_block = rank;
    schedule.steps.push_back(step);
    return schedule;
  }
  for (int k = 1; k < nranks; ++k) {
    Step step;
    step.recv_peer = (root + k) % nranks;
    step.recv_block = step.recv_peer;
    schedule.steps.push_back(step);
  }
  return schedule;
}

Schedule direct_scatter(int rank, int nranks, int root) {
  Schedule schedule = empty(rank, nranks, nranks);
  if (rank != root) {
    Step step;
    step.recv_peer = root;
    step.recv_block = rank;
    schedule.steps.push_back(step);
    return schedule;
  }
  for (int k = 1; k < nranks; ++k) {
    Step step;
    step.send_peer = (root + k) % nranks;
    step.send_block = step.send_peer;
    schedule.steps.push_back(step);
  }
  return schedule;
}

Schedule direct_all_reduce(int rank, int nranks) {
  Schedule schedule = empty(rank, nranks, nranks);
  for (int k = 1; k < nranks; ++k) {
    Step step;
    step.send_peer = (rank + k) % nranks;
    step.send_block = step.send_peer;
    step.recv_peer = (rank - k + nranks) % nranks;
    step.recv_block = rank;
    step.action = step.recv_peer < rank ? Action::fold_below : Action::fold_above;
    step.completes = k == nranks - 1;
    schedule.steps.push_back(step);
  }
  const int whole = nranks - 2;  // the step that completes the own block
  for (int k = 1; k < nranks; ++k) {
    Step step;
    step.send_peer = (rank + k) % nranks;
    step.send_block = rank;
    step.send_after = whole;
    step.recv_peer = (rank - k + nranks) % nranks;
    step.recv_block = step.recv_peer;
    schedule.steps.push_back(step);
  }
  return schedule;
}

Schedule pairwise_all_to_all(int rank, int nranks) {
  Schedule schedule = empty(rank, nranks, nranks * nranks);
  for (int k = 1; k < nranks; ++k) {
    Step step;
    step.send_peer = (rank + k) % nranks;
    step.send_block = rank * nranks + step.send_peer;
    step.recv_peer = (rank - k + nranks) % nranks;
    step.recv_block = step.recv_peer * nranks + rank;
    schedule.steps.push_back(step);
  }
  return schedule;
}

}  // namespace ccore
