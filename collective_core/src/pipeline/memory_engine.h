// A copy engine whose device is host memory too: a thread that copies, in the order of the calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "pipeline/copy_engine.h"

namespace ccore {

class MemoryEngine : public CopyEngine {
 public:
  MemoryEngine();
  // Ends all that was started first.
  ~MemoryEngine() override;

  uint64_t start_to_host(void* host, const void* device, size_t bytes) override;
  uint64_t start_to_device(void* device, const void* host, size_t bytes) override;
  bool poll(uint64_t copy) override;

 private:
  struct Job {
    void* to;
    const void* from;
    size_t bytes;
  };
  uint64_t start(const Job& job);
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stopping_ = false;
  uint64_t started_ = 0;
  std::atomic<uint64_t> ended_{0};
  std::thread thread_;
};

}  // namespace ccore
