#include "common/clock.h"

#include <time.h>

#include <algorithm>
#include <limits>

namespace ccore {

int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

Deadline Deadline::in_ms(int64_t timeout_ms, int64_t then_ns) {
  const int64_t most = (std::numeric_limits<int64_t>::max() - then_ns) / 1000000 - 1;
  return Deadline(then_ns + std::min(timeout_ms, most) * 1000000);
}

int Deadline::remaining_ms(int most_ms) const {
  const int64_t left = (remaining_ns() + 999999) / 1000000;
  return static_cast<int>(std::clamp<int64_t>(left, 0, most_ms));
}

}  // namespace ccore
