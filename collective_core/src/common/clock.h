// Monotonic time and deadlines.
#pragma once

#include <cstdint>

namespace ccore {

int64_t now_ns();

class Deadline {
 public:
  // timeout_ms from then.
  static Deadline in_ms(int64_t timeout_ms, int64_t then_ns = now_ns());
  bool passed() const { return remaining_ns() <= 0; }
  int64_t remaining_ns() const { return at_ns_ - now_ns(); }
  // For poll(): at least 0, at most `most_ms`, rounded up so that a wait never ends just before the deadline.
  int remaining_ms(int most_ms) const;

 private:
  explicit Deadline(int64_t at_ns) : at_ns_(at_ns) {}
  int64_t at_ns_;
};

}  // namespace ccore
