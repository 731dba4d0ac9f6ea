// What copies between the memory of a device and that of the host while the caller does something else.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "collective_core/collective_core.h"

namespace ccore {

class CopyEngine {
 public:
  CopyEngine() = default;
  virtual ~CopyEngine() = default;
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  // bytes > 0. Return a number by which poll knows the copy; throw Error if it has not started.
  virtual uint64_t start_to_host(void* host, const void* device, size_t bytes) = 0;
  virtual uint64_t start_to_device(void* device, const void* host, size_t bytes) = 0;
  // Whether the copy has ended. Throws Error if it has failed; then it no longer touches memory. Not called again
  // for it after either.
  virtual bool poll(uint64_t copy) = 0;
};

// One of the caller's, behind the C ABI.
class CallbackEngine : public CopyEngine {
 public:
  // Throws CC_ERROR_INVALID_ARGUMENT if something is missing.
  explicit CallbackEngine(const cc_copy_engine& callbacks);

  uint64_t start_to_host(void* host, const void* device, size_t bytes) override;
  uint64_t start_to_device(void* device, const void* host, size_t bytes) override;
  bool poll(uint64_t copy) override;

 private:
  cc_copy_engine callbacks_;
};

// One whose device is host memory too: a thread that copies, in the order of the calls.
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
