// The threads that are in a communicator: the one whose turn it is, and those that wait for theirs.
#pragma once

#include <time.h>

#include <atomic>
#include <mutex>

namespace ccore {

class Turns {
 public:
  // A call from its beginning to its end, which may be several turns. The communicator stays as long as there is one.
  class Stay {
   public:
    explicit Stay(Turns* turns) : turns_(turns) { turns_->staying_.fetch_add(1, std::memory_order_acq_rel); }
    ~Stay() { turns_->staying_.fetch_sub(1, std::memory_order_acq_rel); }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

   private:
    Turns* turns_;
  };

  // Returns when no other thread has its turn, and ends with it.
  class Turn {
   public:
    explicit Turn(Turns* turns) : stay_(turns), lock_(turns->mutex_) {}

   private:
    Stay stay_;  // ends after the lock: when there is none, no thread touches the mutex either
    std::lock_guard<std::mutex> lock_;
  };

  bool any() const { return staying_.load(std::memory_order_acquire) > 0; }
  void wait_for_none() const {
    const timespec moment{0, 1000000};
    while (any()) nanosleep(&moment, nullptr);
  }

 private:
  std::mutex mutex_;
  std::atomic<int> staying_{0};
};

}  // namespace ccore
