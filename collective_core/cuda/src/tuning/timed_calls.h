// Times of calls on the GPU, between two events on the caller's stream. Nothing here waits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>

#include "tuning/competition.h"

namespace ccore_cuda {

class TimedCalls {
 public:
  TimedCalls() = default;
  ~TimedCalls();
  TimedCalls(const TimedCalls&) = delete;
  TimedCalls& operator=(const TimedCalls&) = delete;

  // Around one call. round: as in Step; the time of round -1 is not kept.
  void begin(size_t candidate, int round, cudaStream_t stream);
  void end(cudaStream_t stream);
  // Writes the times of the calls that have ended. True: all have.
  bool collect(Record* record);

 private:
  struct Timed {
    size_t candidate;
    int round;
    cudaEvent_t begin, end;
  };
  static void destroy(const Timed& one);

  std::deque<Timed> open_;  // in the order of the calls
};

}  // namespace ccore_cuda
