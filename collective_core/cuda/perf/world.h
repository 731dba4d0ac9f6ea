// The ranks of a measuring program: processes or threads of this host, with a communicator and a handle.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "collective_core/collective_core_cuda.h"

namespace cuda_perf {

constexpr int kMostRanks = 16;

class Failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Memory that all ranks see.
struct Shared {
  std::atomic<int> arrived;
  std::atomic<int> generation;
  std::atomic<int> dead;
  pid_t pids[kMostRanks];
  double numbers[kMostRanks];
  cc_unique_id ids[8];
  char texts[kMostRanks][256];
};

class Rank {
 public:
  Rank(Shared* shared, int rank, int size) : rank(rank), size(size), shared_(shared) {}

  // Returns when all ranks have come.
  void barrier() const;
  // The largest, and the sum, of the numbers of all ranks.
  double largest(double number) const;
  double total(double number) const;
  // A communicator and a handle of all ranks; `slot` below 8, each once.
  cc_comm* make_comm(int slot, int64_t timeout_ms) const;
  cc_cuda* make_handle(cc_comm* comm, const cc_cuda_options& options) const;
  Shared* shared() const { return shared_; }

  const int rank;
  const int size;

 private:
  Shared* const shared_;
};

// Throws Failed with the library's text.
void require(cc_result result, const char* what);

// Runs body on each rank; returns the number of ranks that failed. threads: of this process instead of processes.
// Ranks that are killed on purpose are not counted.
int run_ranks(int size, bool threads, int killed, const std::function<void(Rank&)>& body);

double now_s();

}  // namespace cuda_perf
