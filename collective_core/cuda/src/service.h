// The threads of a handle. One maps what peers export. The other carries failures between ranks, and ends waits of streams
// at their deadline: it reads and writes words in host memory only, because a program that waits for a stream may hold the
// driver's lock. They sleep while nothing happens.
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "collective_core/collective_core.h"
#include "failure.h"
#include "host/host_waits.h"
#include "memory/buffers.h"

namespace ccore_cuda {

class Service {
 public:
  struct Watched {
    Board* board;
    Buffers* buffers;
    FailureState* failure;
    HostWords* words;
    StreamWaits* waits;  // by waits_of(); null if no stream waits
    cc_comm* comm;
    int rank;
    int size;
    int device;
    int64_t timeout_ns;
    std::vector<HostWaits*> host_waits = {};
  };

  Service(const Watched& watched, uint32_t first_epoch);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Called when work was queued; wakes the thread that watches if it sleeps for long.
  void notice_work() {
    last_work_ns_.store(now_ns(), std::memory_order_relaxed);
    if (sleeps_long_.load(std::memory_order_relaxed) && sleeps_long_.exchange(false)) wake_all(watched_.board);
  }
  // An operation whose stream waits in this rank's region.
  struct StreamOperation {
    uint64_t call;
    uint32_t epoch;  // of StreamWaits; without one, the peers alone are known
    bool has_epoch;
    uint32_t peers;  // a bit for each rank that it waits for
  };
  // Numbers the operation: its stream writes the number into HostWords::begun and ended.
  uint32_t begin_stream_operation(const StreamOperation& operation) {
    const uint32_t number = queued_.load(std::memory_order_relaxed) + 1;
    operations_[number % kRemembered] = operation;
    queued_.store(number, std::memory_order_release);
    return number;
  }

 private:
  void map();
  void watch();
  void carry_failures();
  bool is_busy() const;
  void watch_streams();
  void end_overdue(HostWaits* waits) const;
  void release_streams() const;
  std::string ranks_behind(const StreamOperation& operation) const;
  static constexpr size_t kRemembered = 1024;
  static int64_t now_ns();

  const Watched watched_;
  std::atomic<bool> ends_{false};
  std::atomic<bool> sleeps_long_{false};
  std::atomic<int64_t> last_work_ns_{0};
  std::atomic<uint32_t> queued_;  // the last operation on a stream
  std::array<StreamOperation, kRemembered> operations_{};
  uint32_t begun_ = 0;
  int64_t begun_ns_ = 0;
  std::thread mapping_;
  std::thread watching_;
};

}  // namespace ccore_cuda
