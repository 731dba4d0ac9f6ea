#include <algorithm>

#include "schedule/schedule.h"

namespace ccore {

Block block_of(size_t count, int nblocks, int block) {
  const auto n = static_cast<size_t>(nblocks);
  const auto b = static_cast<size_t>(block);
  const size_t small = count / n;
  const size_t larger = count % n;
  return Block{b * small + std::min(b, larger), small + (b < larger ? 1 : 0)};
}

size_t elements_sent(const Schedule& schedule, size_t count) {
  size_t sent = 0;
  for (const Step& step : schedule.steps) {
    if (step.send_peer != kNone) sent += block_of(count, schedule.nblocks, step.send_block).count;
  }
  return sent;
}

}  // namespace ccore
