// What a perf program times. Each program is the driver and one file of collectives/, which says this.
#pragma once

#include <cstddef>

#include "check.h"
#include "collective_core/collective_core.h"

namespace ccore_perf {

struct Call {
  int rank;
  int root;
  const void* send;
  void* recv;
  size_t count;
  Inputs inputs;
  cc_comm* comm;

  // Block `index` of count elements in recv.
  char* block(int index) const {
    return static_cast<char*>(recv) + static_cast<size_t>(index) * count * cc_dtype_size(inputs.dtype);
  }
};

struct Collective {
  const char* program;  // as nccl-tests calls it
  bool reduces;         // -o counts; else its column says none
  bool rooted;          // -r counts; else its column says -1
  // The buffer holds a block of count elements for each rank, else one block in all.
  bool send_blocks;
  bool recv_blocks;
  // In place means, of the two buffers, that the smaller is this rank's block of the larger one.
  bool in_place;
  bool only_powers_of_two;
  // Bus bandwidth over algorithm bandwidth (the larger buffer over the time), from nccl-tests' PERFORMANCE.md.
  double (*bus_factor)(double nranks);
  cc_result (*run)(const Call& call);
  // Elements of this rank's recv that are wrong.
  size_t (*wrong)(const Call& call);
};

// Of this program.
extern const Collective kCollective;

// Factors that several have.
inline double everything_once(double) { return 1; }
inline double all_but_own(double nranks) { return (nranks - 1) / nranks; }
// One block from each rank, in their order.
inline size_t wrong_of_all(const Call& call) {
  size_t wrong = 0;
  for (int rank = 0; rank < call.inputs.nranks; ++rank) {
    wrong += count_wrong(call.block(rank), 0, call.count, call.inputs, rank);
  }
  return wrong;
}
// From each rank its block for this one.
inline size_t wrong_of_every_pair(const Call& call) {
  const size_t own = static_cast<size_t>(call.rank) * call.count;
  size_t wrong = 0;
  for (int rank = 0; rank < call.inputs.nranks; ++rank) {
    wrong += count_wrong(call.block(rank), own, call.count, call.inputs, rank);
  }
  return wrong;
}

}  // namespace ccore_perf
