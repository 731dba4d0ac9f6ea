// Operations of a handle on several streams run one after the other: each waits for the end of the one before.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ccore_cuda {

class StreamOrder {
 public:
  StreamOrder();
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // Whether the stream is being captured into a graph. A graph is ordered within itself; its launches are ordered by
  // the streams that the caller launches them on.
  bool begin(cudaStream_t stream);
  void end(cudaStream_t stream, bool captured);
  // The end of the last operation that was not captured.
  cudaEvent_t last() const { return eager_; }

 private:
  cudaEvent_t eager_ = nullptr;
  cudaEvent_t captured_ = nullptr;
  unsigned long long capture_ = 0;  // the capture in which captured_ was recorded
};

}  // namespace ccore_cuda
