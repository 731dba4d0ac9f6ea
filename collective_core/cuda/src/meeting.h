// How the ranks of a handle exchange what they must know of each other, on the host.
#pragma once

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

  // The records of all ranks, in their order. timeout_ms 0: the communicator's own.
  template <typename Record>
  std::vector<Record> exchange(const Record& own, int64_t timeout_ms = 0) const {
    std::vector<Record> all(static_cast<size_t>(size_));
    cc_op_options options{};
    options.size = sizeof options;
    options.timeout_ms = timeout_ms;
    require(cc_all_gather(&own, all.data(), sizeof own, CC_UINT8, comm_, &options));
    return all;
  }

 private:
  static void require(cc_result result) {
    if (result != CC_SUCCESS) throw Error(result, cc_last_error(nullptr));
  }

  cc_comm* comm_;
  int rank_ = 0;
  int size_ = 0;
};

}  // namespace ccore_cuda
