#include "pipeline/memory_engine.h"

#include <cstring>

#include "common/own_thread.h"

namespace ccore {

MemoryEngine::MemoryEngine() : thread_(own_thread([this] { work(); })) {}

MemoryEngine::~MemoryEngine() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

uint64_t MemoryEngine::start_to_host(void* host, const void* device, size_t bytes) {
  return start(Job{host, device, bytes});
}

uint64_t MemoryEngine::start_to_device(void* device, const void* host, size_t bytes) {
  return start(Job{device, host, bytes});
}

bool MemoryEngine::poll(uint64_t copy) { return ended_.load(std::memory_order_acquire) >= copy; }

uint64_t MemoryEngine::start(const Job& job) {
  uint64_t copy;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back(job);
    copy = ++started_;
  }
  changed_.notify_one();
  return copy;
}

void MemoryEngine::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    std::memcpy(job.to, job.from, job.bytes);
    ended_.fetch_add(1, std::memory_order_release);
    lock.lock();
  }
}

}  // namespace ccore
