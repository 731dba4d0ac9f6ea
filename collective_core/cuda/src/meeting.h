// How the ranks of a handle exchange what they must know of each other, on the host, when a handle is made.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "collective_core/collective_core.h"
#include "error.h"

namespace ccore_cuda {

class Meeting {
 public:
  explicit Meeting(cc_comm* comm) : comm_(comm) {
    require(cc_comm_rank(comm, &rank_));
    require(cc_comm_size(comm, &size_));
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  cc_comm* comm() const { return comm_; }

  // The records of all ranks, in their order.
  template <typename Record>
  std::vector<Record> exchange(const Record& own) const {
    std::vector<Record> all(static_cast<size_t>(size_));
    require(cc_all_gather(&own, all.data(), sizeof own, CC_UINT8, comm_, nullptr));
    return all;
  }

  // Runs the step of this rank; if it fails on one rank, it throws that rank's error on all.
  template <typename Step>
  void all_or_none(Step step) const;

  int smallest(int number) const {
    for (const int other : exchange(number)) number = other < number ? other : number;
    return number;
  }

 private:
  static void require(cc_result result) {
    if (result != CC_SUCCESS) throw Error(result, cc_last_error(nullptr));
  }

  cc_comm* comm_;
  int rank_ = 0;
  int size_ = 0;
};

inline void put(char (&text)[160], const std::string& error) { std::snprintf(text, sizeof text, "%s", error.c_str()); }

// Throws on all ranks the error of the first rank that has one.
template <typename Record>
void require_all(const std::vector<Record>& records) {
  for (size_t rank = 0; rank < records.size(); ++rank) {
    if (records[rank].error[0]) {
      throw Error(CC_ERROR_SYSTEM, "rank " + std::to_string(rank) + ": " + records[rank].error);
    }
  }
}

template <typename Step>
void Meeting::all_or_none(Step step) const {
  struct Outcome {
    char error[160];
  };
  Outcome outcome{};
  try {
    step();
  } catch (const Error& error) {
    put(outcome.error, error.what());
  }
  require_all(exchange(outcome));
}

}  // namespace ccore_cuda
