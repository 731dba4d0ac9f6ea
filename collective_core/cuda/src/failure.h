// The first failure of a handle, and the words in host memory by which device and host tell each other of it.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "collective_core/collective_core.h"
#include "memory/board.h"
#include "protocol/layout.h"

namespace ccore_cuda {

class FailureState {
 public:
  FailureState(Board* board, int rank, HostWords* words) : board_(board), rank_(rank), words_(words) {}

  // CC_SUCCESS, or the first failure. Looks at the device's words and at what other ranks have put on the board.
  cc_result poll();
  const std::string& text() const { return text_; }
  void throw_if_failed();
  // Records a failure of this rank, ends its waits on the device, and tells the others.
  void fail(cc_result result, const std::string& text);
  // Not 0 after a failure of this rank, and soon after one of another: see HostWords.
  const uint64_t* word() const { return reinterpret_cast<const uint64_t*>(words_); }
  bool failed() const { return result_.load(std::memory_order_acquire) != CC_SUCCESS; }

 private:
  std::string describe(Failure failure) const;

  Board* const board_;
  const int rank_;
  HostWords* const words_;
  std::mutex mutex_;
  std::atomic<int> result_{CC_SUCCESS};
  std::string text_;  // written once, before result_
};

// "all_reduce of 100 elements of type float32, sum"
std::string text_of_call(uint64_t call);

}  // namespace ccore_cuda
