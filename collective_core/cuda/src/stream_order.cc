#include "stream_order.h"

#include "error.h"

namespace ccore_cuda {

StreamOrder::StreamOrder() {
  check(cudaEventCreateWithFlags(&eager_, cudaEventDisableTiming), "making an event");
  check(cudaEventCreateWithFlags(&captured_, cudaEventDisableTiming), "making an event");
}

StreamOrder::~StreamOrder() {
  cudaEventDestroy(eager_);
  cudaEventDestroy(captured_);
}

bool StreamOrder::begin(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long capture = 0;
  check(cudaStreamGetCaptureInfo(stream, &status, &capture), "asking for the state of the stream");
  if (status == cudaStreamCaptureStatusInvalidated) {
    throw Error(CC_ERROR_INVALID_USAGE, "the capture of the stream has failed before this call");
  }
  if (status == cudaStreamCaptureStatusNone) {
    // On the same stream too: a handle of a stream may be used again for a new one.
    check(cudaStreamWaitEvent(stream, eager_, 0), "ordering streams");
    return false;
  }
  if (capture == capture_) {
    check(cudaStreamWaitEvent(stream, captured_, 0), "ordering streams of a capture");
  }
  capture_ = capture;
  return true;
}

void StreamOrder::end(cudaStream_t stream, bool captured) {
  check(cudaEventRecord(captured ? captured_ : eager_, stream), "recording the end of an operation");
}

}  // namespace ccore_cuda
