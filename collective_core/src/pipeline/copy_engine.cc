#include "pipeline/copy_engine.h"

#include <array>
#include <cstring>

#include "common/error.h"
#include "common/own_thread.h"

namespace ccore {
namespace {

using Text = std::array<char, 1024>;

[[noreturn]] void throw_failed(cc_result result, Text* text) {
  text->back() = '\0';
  throw Error(CC_ERROR_SYSTEM, text->front()
                                   ? text->data()
                                   : format("the copy engine returned %d and no text", static_cast<int>(result)));
}

}  // namespace

CallbackEngine::CallbackEngine(const cc_copy_engine& callbacks) {
  if (callbacks.size < sizeof(cc_copy_engine) || callbacks.size > 4096) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, "cc_copy_engine.size is not set");
  }
  if (!callbacks.start_to_host || !callbacks.start_to_device || !callbacks.poll) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, "a callback of cc_copy_engine is null");
  }
  callbacks_ = callbacks;
}

uint64_t CallbackEngine::start_to_host(void* host, const void* device, size_t bytes) {
  Text text{};
  uint64_t copy = 0;
  const cc_result result =
      callbacks_.start_to_host(callbacks_.context, host, device, bytes, &copy, text.data(), text.size());
  if (result != CC_SUCCESS) throw_failed(result, &text);
  return copy;
}

uint64_t CallbackEngine::start_to_device(void* device, const void* host, size_t bytes) {
  Text text{};
  uint64_t copy = 0;
  const cc_result result =
      callbacks_.start_to_device(callbacks_.context, device, host, bytes, &copy, text.data(), text.size());
  if (result != CC_SUCCESS) throw_failed(result, &text);
  return copy;
}

bool CallbackEngine::poll(uint64_t copy) {
  Text text{};
  const cc_result result = callbacks_.poll(callbacks_.context, copy, text.data(), text.size());
  if (result == CC_IN_PROGRESS) return false;
  if (result != CC_SUCCESS) throw_failed(result, &text);
  return true;
}

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
