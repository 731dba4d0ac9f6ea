#include "stream_order.h"

#include <array>
#include <cstdint>

#include "capture_mode.h"
#include "collective_core/collective_core_cuda.h"
#include "error.h"
#include "memory/owned.h"

namespace ccore_cuda {
namespace {

constexpr size_t kOtherStreams = 8;

class OtherStreams {
 public:
  OtherStreams() = default;
  ~OtherStreams() {
    for (cudaStream_t stream : streams_) {
      if (stream) cudaStreamDestroy(stream);
    }
  }
  OtherStreams(const OtherStreams&) = delete;
  OtherStreams& operator=(const OtherStreams&) = delete;

  void carry_out_work() {
    for (cudaStream_t& stream : streams_) {
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    }
    const DeviceMemoryBlock word(sizeof(uint32_t), false);
    for (cudaStream_t stream : streams_) {
      check(cudaMemsetAsync(word.as<void>(), 0, sizeof(uint32_t), stream), "using a stream");
    }
    for (cudaStream_t stream : streams_) check(cudaStreamSynchronize(stream), "using a stream");
  }

 private:
  std::array<cudaStream_t, kOtherStreams> streams_{};
};

void make_event(cudaEvent_t* event) {
  check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
}

// 0: the stream is not being captured.
unsigned long long capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long capture = 0;
  check(cudaStreamGetCaptureInfo(stream, &status, &capture), "asking for the state of the stream");
  if (status == cudaStreamCaptureStatusInvalidated) {
    throw Error(CC_ERROR_INVALID_USAGE, "the capture of the stream has failed before this call");
  }
  return status == cudaStreamCaptureStatusNone ? 0 : capture;
}

// No other stream of the process ever has it, while the address of a stream may be used again.
unsigned long long number_of(cudaStream_t stream) {
  unsigned long long number = 0;
  check(cudaStreamGetId(stream, &number), "asking for the number of the stream");
  return number;
}

void let_wait(cudaStream_t stream, cudaEvent_t event) {
  check(cudaStreamWaitEvent(stream, event, 0), "ordering streams");
}

}  // namespace

TicketRing::~TicketRing() {
  for (const Slot& slot : slots_) {
    if (slot.event) cudaEventDestroy(slot.event);
  }
}

uint64_t TicketRing::record(cudaStream_t stream, unsigned long long capture, bool is_mark) {
  Slot& slot = slots_[(newest_ + 1) % kSlots];
  if (!slot.event) {
    make_event(&slot.event);
  } else if ((slot.is_mark || is_mark) && slot.capture == capture) {
    let_wait(stream, slot.event);
  }
  check(cudaEventRecord(slot.event, stream), "recording the end of an operation");
  slot.capture = capture;
  slot.is_mark = is_mark;
  return ++newest_;
}

StreamOrder::StreamOrder() {
  // While an operation waits in the stream of a group, the GPU starts each kernel of the program about 1 us later, if the
  // group's stream is among the first that the process used. It does not once eight others have carried out work, even
  // if these are gone. Why is not known ("Training on two H200" in docs/performance-log.md).
  try {
    OtherStreams().carry_out_work();
  } catch (const Error&) {
    // A GPU without free memory is reported where the ranks allocate together: alone, this one would leave them.
    cudaGetLastError();
  }
  check(cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking), "making a stream");
  own_number_ = number_of(own_);
  make_event(&leader_);
  make_event(&first_);
  last_.store(first_);
}

StreamOrder::~StreamOrder() {
  cudaEventDestroy(first_);
  cudaEventDestroy(leader_);
  cudaStreamDestroy(own_);
}

bool StreamOrder::begin(cudaStream_t stream) {
  const unsigned long long capture = capture_of(stream);
  if (capture == 0) {
    begun_on_ = stream == own_ ? own_number_ : number_of(stream);
    if (begun_on_ != last_stream_) let_wait(stream, last());
    return false;
  }
  if (capture == capture_) let_wait(stream, last_captured_);
  capture_ = capture;
  return true;
}

void StreamOrder::end(cudaStream_t stream, bool captured) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (captured) {
    last_captured_ = captured_.event_of(captured_.record(stream, capture_, false));
    return;
  }
  last_.store(eager_.event_of(eager_.record(stream, 0, false)), std::memory_order_release);
  last_stream_ = begun_on_;
}

bool StreamOrder::follow(cudaStream_t leader) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool captured = is_captured(leader);
  if (leader != own_) {
    check(cudaEventRecord(leader_, leader), "recording what the caller has queued");
    let_wait(own_, leader_);
  }
  return captured;
}

uint64_t StreamOrder::newest(bool captured) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return captured ? CC_CUDA_TICKET_CAPTURED | captured_.newest() : eager_.newest();
}

uint64_t StreamOrder::mark(cudaStream_t stream) {
  const unsigned long long capture = capture_of(stream);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (capture == 0) return eager_.record(stream, 0, true);
  return CC_CUDA_TICKET_CAPTURED | captured_.record(stream, capture, true);
}

void StreamOrder::wait(uint64_t ticket, cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const TicketRing& ring = ticket & CC_CUDA_TICKET_CAPTURED ? captured_ : eager_;
  const uint64_t number = ticket & ~CC_CUDA_TICKET_CAPTURED;
  if (number > ring.newest()) throw Error(CC_ERROR_INVALID_ARGUMENT, "the ticket is not of this handle");
  if (number != 0) let_wait(stream, ring.event_of(number));
}

bool StreamOrder::has_ended(uint64_t ticket) {
  if (ticket & CC_CUDA_TICKET_CAPTURED) {
    throw Error(CC_ERROR_INVALID_USAGE, "the operation was captured in a CUDA graph: it ends with each launch of that");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ticket > eager_.newest()) throw Error(CC_ERROR_INVALID_ARGUMENT, "the ticket is not of this handle");
  if (ticket == 0) return true;
  const RelaxedCapture relaxed;  // another thread may be capturing
  const cudaError_t code = cudaEventQuery(eager_.event_of(ticket));
  if (code == cudaErrorNotReady) return false;
  check(code, "asking for the end of an operation");
  return true;
}

}  // namespace ccore_cuda
