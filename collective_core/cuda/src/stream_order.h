// Operations of a handle on several streams run one after the other: each waits for the end of the one before. Tickets
// stand for these ends.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace ccore_cuda {

// Events in a ring. One that is used again is recorded after what it stood for, so that a wait for an old ticket is a
// wait for more than it needs, and never for less.
class TicketRing {
 public:
  TicketRing() = default;
  ~TicketRing();
  TicketRing(const TicketRing&) = delete;
  TicketRing& operator=(const TicketRing&) = delete;

  // Records an event and returns its number, from 1 on. Operations follow each other, marks follow nothing. capture: 0, or
  // the capture that the stream is in.
  uint64_t record(cudaStream_t stream, unsigned long long capture, bool is_mark);
  cudaEvent_t event_of(uint64_t number) const { return slots_[number % kSlots].event; }
  uint64_t newest() const { return newest_; }

 private:
  static constexpr size_t kSlots = 1024;
  struct Slot {
    cudaEvent_t event;
    unsigned long long capture;
    bool is_mark;
  };

  std::array<Slot, kSlots> slots_{};
  uint64_t newest_ = 0;
};

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
  // The end of the last operation that was not captured, or what was recorded at first.
  cudaEvent_t last() const { return last_.load(std::memory_order_acquire); }

  // The stream of asynchronous operations.
  cudaStream_t own() const { return own_; }
  // Lets it wait for what another stream has queued. Returns whether that stream is being captured.
  bool follow(cudaStream_t leader);
  // The ticket of the last operation, of those in captures or of the others; 0: there was none.
  uint64_t newest(bool captured);
  // A ticket for what a stream has queued.
  uint64_t mark(cudaStream_t stream);
  void wait(uint64_t ticket, cudaStream_t stream);
  // Throws for an operation of a graph.
  bool has_ended(uint64_t ticket);

 private:
  cudaStream_t own_ = nullptr;
  cudaEvent_t leader_ = nullptr;  // where the own stream follows another one
  cudaEvent_t first_ = nullptr;   // before the first operation
  std::atomic<cudaEvent_t> last_{nullptr};
  unsigned long long own_number_ = 0;       // of the own stream, as in number_of()
  unsigned long long begun_on_ = 0;         // that of the operation which has begun
  unsigned long long last_stream_ = ~0ull;  // of the last operation
  std::mutex mutex_;          // of the rings and of leader_
  TicketRing eager_;
  TicketRing captured_;
  cudaEvent_t last_captured_ = nullptr;
  unsigned long long capture_ = 0;  // the capture in which it was recorded
};

}  // namespace ccore_cuda
