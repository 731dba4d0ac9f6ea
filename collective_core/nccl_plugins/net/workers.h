// The threads that serve the sockets of all connections of a process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/unique_fd.h"

namespace ccore::nccl {

enum class Step {
  moved,    // it did something, and there may be more
  idle,     // nothing to do until another thread signals
  blocked,  // nothing to do until the kernel reports the socket as ready
};

// A socket that a worker serves. The worker calls step() until it no longer moves.
class Port {
 public:
  virtual ~Port() = default;
  virtual Step step() = 0;

 private:
  friend class Worker;
  friend class Workers;
  std::mutex running_;  // held during step()
  bool removed_ = false;
  std::atomic<bool> signalled_{false};
  bool runnable_ = false;  // the worker's own
  uint64_t number_ = 0;
  class Worker* worker_ = nullptr;
};

class Workers {
 public:
  Workers(int threads, int64_t spin_ns);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // The threads of this process. They end when the last user drops them.
  static std::shared_ptr<Workers> of_process(int threads, int64_t spin_ns);

  // Serves the socket from now on. events: EPOLLIN or EPOLLOUT, what step() waits for when it is blocked.
  void add(const std::shared_ptr<Port>& port, int fd, uint32_t events);
  // No thread sleeps: each takes up a signal at once.
  bool all_awake() const;
  // There is something to do for it.
  void signal(const std::shared_ptr<Port>& port);
  // After the return step() neither runs nor is called again. Before the socket is closed.
  void remove(const std::shared_ptr<Port>& port, int fd);

 private:
  std::vector<std::unique_ptr<class Worker>> workers_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace ccore::nccl
