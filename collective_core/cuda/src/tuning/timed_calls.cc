#include "tuning/timed_calls.h"

#include "error.h"

namespace ccore_cuda {

void TimedCalls::destroy(const Timed& one) {
  cudaEventDestroy(one.begin);
  cudaEventDestroy(one.end);
}

TimedCalls::~TimedCalls() {
  for (const Timed& one : open_) destroy(one);
}

void TimedCalls::begin(size_t candidate, int round, cudaStream_t stream) {
  Timed one{candidate, round, nullptr, nullptr};
  check(cudaEventCreate(&one.begin), "making an event");
  const cudaError_t code = cudaEventCreate(&one.end);
  if (code != cudaSuccess) cudaEventDestroy(one.begin);
  check(code, "making an event");
  open_.push_back(one);
  check(cudaEventRecord(one.begin, stream), "recording the begin of an operation");
}

void TimedCalls::end(cudaStream_t stream) {
  check(cudaEventRecord(open_.back().end, stream), "recording the end of an operation");
}

bool TimedCalls::collect(Record* record) {
  while (!open_.empty()) {
    const Timed one = open_.front();
    const cudaError_t code = cudaEventQuery(one.end);
    if (code == cudaErrorNotReady) return false;
    check(code, "asking for the end of an operation");
    float ms = 0;
    // A time that CUDA does not have stays 0, which counts as not measured.
    if (one.round >= 0 && cudaEventElapsedTime(&ms, one.begin, one.end) == cudaSuccess) {
      record->us[one.candidate][static_cast<size_t>(one.round)] = ms * 1000;
    }
    open_.pop_front();
    destroy(one);
  }
  return true;
}

}  // namespace ccore_cuda
