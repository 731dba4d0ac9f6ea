// How the ranks of one of NCCL's communicators agree: through NCCL itself, before the program uses the communicator.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cuda_driver.h"
#include "nccl_abi.h"

namespace ccore_nccl {

// A communicator that NCCL has just made, and this rank's place in it.
struct Newcomer {
  Comm nccl = nullptr;
  int ranks = 0;
  int rank = 0;
  Context context = nullptr;  // of the communicator's device
};

// Asks NCCL; throws std::runtime_error.
Newcomer newcomer_of(Comm nccl);

// Gathers a record of each rank on all ranks, on a stream of its own. `records` holds one block of ranks * bytes for each
// newcomer, with this rank's record in its place. All newcomers of a thread go together, as NCCL requires. Throws
// std::runtime_error, also if the other ranks do not come until the deadline.
void gather_records(const std::vector<Newcomer>& newcomers, std::vector<std::vector<char>>* records, size_t bytes);

}  // namespace ccore_nccl
