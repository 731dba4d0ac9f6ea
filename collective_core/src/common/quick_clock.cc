#include "common/quick_clock.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "common/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace ccore {
namespace {

constexpr int64_t kLearnNs = 1000000;
// Two readings of both clocks a millisecond apart differ by less, unless the counter is not what it was: the machine was
// suspended, or moved to another host.
constexpr double kSteady = 1e-3;

#if defined(__x86_64__)

// The kernel uses the counter itself only where it runs evenly and alike on all cores.
bool counter_is_trusted() {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  file >> name;
  return name == "tsc" || name == "kvm-clock";
}

uint64_t read_ticks() { return __rdtsc(); }

#else

bool counter_is_trusted() { return false; }
uint64_t read_ticks() { return 0; }

#endif

}  // namespace

void TickScale::begin(uint64_t ticks, int64_t ns) {
  base_ticks_ = ticks;
  base_ns_ = ns;
  begun_ = true;
}

void TickScale::learn(uint64_t ticks, int64_t ns) {
  if (begun_ && ns - base_ns_ < kLearnNs && ticks > base_ticks_) return;  // too short to tell
  const double rate = static_cast<double>(ns - base_ns_) / static_cast<double>(ticks - base_ticks_);
  const bool plausible = begun_ && ticks > base_ticks_ && rate > 0.05 && rate < 20;
  const bool steady = ns_per_tick_ == 0 || std::abs(rate / ns_per_tick_ - 1) < kSteady;
  begin(ticks, ns);
  ns_per_tick_ = plausible && steady ? rate : 0;
  span_ticks_ = ns_per_tick_ > 0 ? static_cast<uint64_t>(static_cast<double>(kLearnNs) / ns_per_tick_) : 0;
}

int64_t QuickClock::now_ns() {
  static const bool trusted = counter_is_trusted();
  if (!trusted) return ccore::now_ns();
  const uint64_t ticks = read_ticks();
  int64_t ns = 0;
  if (scale_.covers(ticks)) {
    ns = scale_.ns_at(ticks);
  } else {
    ns = ccore::now_ns();
    scale_.learn(ticks, ns);
  }
  last_ns_ = std::max(last_ns_, ns);
  return last_ns_;
}

}  // namespace ccore
