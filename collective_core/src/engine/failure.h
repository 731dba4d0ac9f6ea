// The first error of a communicator. Later ones are consequences and are not kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <string>

#include "collective_core/collective_core.h"
#include "common/error.h"

namespace ccore {

// How long who sees a broken connection waits for the one that says why it broke.
constexpr int64_t kCauseMs = 300;

class Failure {
 public:
  // True if this was the first.
  bool set(cc_result code, const std::string& text);
  cc_result code() const { return static_cast<cc_result>(code_.load(std::memory_order_acquire)); }
  std::string text() const;
  // Throws the error if there is one.
  void check() const;

 private:
  std::atomic<int> code_{CC_SUCCESS};
  mutable std::mutex mutex_;
  std::string text_;
};

// What runs in an operation of a communicator, collective or group of transfers. What else ends it on this rank must
// reach the others as well, or they would wait for their deadline.
template <typename Body>
void told_to_all(Body body) {
  try {
    body();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(CC_ERROR_SYSTEM, "out of memory");
  } catch (const std::exception& error) {
    throw Error(CC_ERROR_INTERNAL, error.what());
  }
}

}  // namespace ccore
