// The thread of a handle: maps what peers export, carries failures between ranks, and ends waits of streams at their
// deadline. It sleeps while nothing happens.
#pragma once

#include <cuda_runtime_api.h>

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
    Control* control;
    RegionPart* parts;  // of this rank's own region; null if no stream waits in it
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

  // Called when work was queued; wakes the thread if it sleeps for long.
  void notice_work() {
    last_work_ns_.store(now_ns(), std::memory_order_relaxed);
    if (sleeps_long_.load(std::memory_order_relaxed) && sleeps_long_.exchange(false)) wake_all(watched_.board);
  }
  // An operation whose stream waits in this rank's region.
  struct StreamOperation {
    uint64_t call;
    uint32_t epoch;  // of StreamLine; without one, the peers alone are known
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
  void run();
  bool is_busy() const;
  void watch_streams();
  void watch(HostWaits* waits) const;
  void release_streams();
  std::string ranks_behind(const StreamOperation& operation) const;
  static constexpr size_t kRemembered = 1024;
  static int64_t now_ns();

  const Watched watched_;
  std::atomic<bool> ends_{false};
  std::atomic<bool> sleeps_long_{false};
  std::atomic<int64_t> last_work_ns_{0};
  std::atomic<uint32_t> queued_;  // the last operation on a stream
  std::array<StreamOperation, kRemembered> operations_{};
  cudaStream_t stream_ = nullptr;    // for what must not queue behind a stream that waits
  uint32_t begun_ = 0;
  int64_t begun_ns_ = 0;
  std::thread thread_;
};

}  // namespace ccore_cuda
