// The monotonic clock for operations that take less than a microsecond.
//
// The kernel's clock waits, on x86-64, until all earlier instructions are done. Between two small operations that costs more
// than the 20 ns of its own: what one operation stores no longer overlaps with what the next one does. Here the processor's
// counter is read without that wait, and the kernel's clock once per millisecond, to scale it.
#pragma once

#include <cstdint>

namespace ccore {

// What ticks are in nanoseconds, learned from pairs of the two. Pure.
class TickScale {
 public:
  // Whether the scale holds for these ticks: it is known, and was learned less than a millisecond ago.
  bool covers(uint64_t ticks) const { return ticks - base_ticks_ < span_ticks_; }
  int64_t ns_at(uint64_t ticks) const {
    return base_ns_ + static_cast<int64_t>(static_cast<double>(ticks - base_ticks_) * ns_per_tick_);
  }
  void learn(uint64_t ticks, int64_t ns);

 private:
  void begin(uint64_t ticks, int64_t ns);

  uint64_t base_ticks_ = 0;
  int64_t base_ns_ = 0;
  double ns_per_tick_ = 0;  // 0: not known
  uint64_t span_ticks_ = 0;  // 0: nothing is covered
  bool begun_ = false;
};

// For one thread at a time.
class QuickClock {
 public:
  // As now_ns() of clock.h to within a microsecond, and never less than the time before.
  int64_t now_ns();

 private:
  TickScale scale_;
  int64_t last_ns_ = 0;
};

}  // namespace ccore
