#include "net/workers.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "common/clock.h"
#include "common/error.h"
#include "common/own_thread.h"

namespace ccore::nccl {
namespace {

constexpr int kEventsAtOnce = 32;
constexpr uint64_t kWakeNumber = 0;

void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace

class Worker {
 public:
  explicit Worker(int64_t spin_ns)
      : spin_ns_(spin_ns), poller_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!poller_ || !wake_) throw_errno("epoll_create1 or eventfd");
    watch(wake_.get(), EPOLLIN, kWakeNumber);
    thread_ = own_thread([this] { run(); });
  }

  ~Worker() {
    stop_.store(true);
    wake();
    thread_.join();
  }

  void add(const std::shared_ptr<Port>& port, int fd, uint32_t events) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ports_[port->number_] = port;
    }
    // Edge-triggered: a port that is blocked is stepped again at the next change.
    watch(fd, events | EPOLLET, port->number_);
  }

  void remove(const std::shared_ptr<Port>& port, int fd) {
    epoll_ctl(poller_.get(), EPOLL_CTL_DEL, fd, nullptr);
    const std::lock_guard<std::mutex> lock(mutex_);
    ports_.erase(port->number_);
  }

  bool is_asleep() const { return asleep_.load(std::memory_order_relaxed); }

  void signal(const std::shared_ptr<Port>& port) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      inbox_.push_back(port);
    }
    pending_.store(true);
    if (asleep_.load()) wake();
  }

 private:
  void watch(int fd, uint32_t events, uint64_t number) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = number;
    if (epoll_ctl(poller_.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw_errno("epoll_ctl");
  }

  void wake() {
    const uint64_t one = 1;
    // It only fails when the counter is full, and then the thread wakes anyway.
    if (write(wake_.get(), &one, sizeof one) < 0) return;
  }

  void make_runnable(const std::shared_ptr<Port>& port) {
    if (port->runnable_) return;
    port->runnable_ = true;
    runnable_.push_back(port);
  }

  void take_signals() {
    if (!pending_.exchange(false)) return;
    std::vector<std::shared_ptr<Port>> signalled;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      signalled.swap(inbox_);
    }
    for (const auto& port : signalled) {
      port->signalled_.store(false);
      make_runnable(port);
    }
  }

  void poll_sockets(int timeout_ms) {
    epoll_event events[kEventsAtOnce];
    const int count = epoll_wait(poller_.get(), events, kEventsAtOnce, timeout_ms);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == kWakeNumber) {
        uint64_t ignored = 0;
        if (read(wake_.get(), &ignored, sizeof ignored) < 0) continue;
        continue;
      }
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = ports_.find(events[i].data.u64);
      if (found != ports_.end()) make_runnable(found->second);
    }
  }

  bool step_all() {
    bool moved = false;
    for (auto& port : runnable_) {
      const std::lock_guard<std::mutex> lock(port->running_);
      const Step step = port->removed_ ? Step::idle : port->step();
      port->runnable_ = step == Step::moved;
      moved = moved || step == Step::moved;
    }
    runnable_.erase(std::remove_if(runnable_.begin(), runnable_.end(),
                                   [](const std::shared_ptr<Port>& port) { return !port->runnable_; }),
                    runnable_.end());
    return moved;
  }

  void sleep() {
    asleep_.store(true);
    if (!pending_.load() && !stop_.load()) poll_sockets(-1);
    asleep_.store(false);
  }

  void run() {
    pthread_setname_np(pthread_self(), "ccore-nccl-net");
    int64_t idle_since = 0;
    while (!stop_.load()) {
      take_signals();
      if (step_all()) idle_since = 0;
      if (!runnable_.empty()) {
        poll_sockets(0);
        continue;
      }
      const int64_t now = spin_ns_ > 0 ? now_ns() : 0;
      if (idle_since == 0) idle_since = now;
      if (now - idle_since >= spin_ns_) {
        sleep();
        idle_since = 0;
        continue;
      }
      poll_sockets(0);
      for (int i = 0; i < 20 && runnable_.empty() && !pending_.load(std::memory_order_relaxed); ++i) pause_processor();
    }
  }

  const int64_t spin_ns_;
  UniqueFd poller_;
  UniqueFd wake_;
  std::mutex mutex_;  // of ports_ and inbox_
  std::unordered_map<uint64_t, std::shared_ptr<Port>> ports_;
  std::vector<std::shared_ptr<Port>> inbox_;
  std::atomic<bool> pending_{false};
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stop_{false};
  std::vector<std::shared_ptr<Port>> runnable_;  // the thread's own
  std::thread thread_;
};

Workers::Workers(int threads, int64_t spin_ns) {
  for (int i = 0; i < threads; ++i) workers_.push_back(std::make_unique<Worker>(spin_ns));
}

Workers::~Workers() = default;

std::shared_ptr<Workers> Workers::of_process(int threads, int64_t spin_ns) {
  static std::mutex mutex;
  static std::weak_ptr<Workers> current;
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Workers> workers = current.lock();
  if (!workers) {
    workers = std::make_shared<Workers>(threads, spin_ns);
    current = workers;
  }
  return workers;
}

void Workers::add(const std::shared_ptr<Port>& port, int fd, uint32_t events) {
  const uint64_t number = next_.fetch_add(1);
  port->number_ = number + 1;  // 0 is the wake-up
  port->worker_ = workers_[number % workers_.size()].get();
  port->worker_->add(port, fd, events);
}

bool Workers::all_awake() const {
  return std::none_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->is_asleep(); });
}

void Workers::signal(const std::shared_ptr<Port>& port) {
  if (!port->signalled_.exchange(true)) port->worker_->signal(port);
}

void Workers::remove(const std::shared_ptr<Port>& port, int fd) {
  port->worker_->remove(port, fd);
  const std::lock_guard<std::mutex> lock(port->running_);
  port->removed_ = true;
}

}  // namespace ccore::nccl
