// Reduces the parts of all ranks where they lie, in the order of ranks, so that every rank gets the same bits.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/links/stream.h"

namespace ccore {

// Of the result, before the next part of the data is looked at: it stays in the first-level cache from the first rank's
// part to the last one's.
constexpr size_t kFoldBytes = 16 * 1024;

// part(rank): where that rank's `count` elements are. `out` may be part(0) or part(1), and no other.
template <typename Part>
void fold(std::byte* out, size_t count, int nranks, const Reduction& reduction, unsigned divisor, Part part) {
  const size_t element = reduction.element_bytes;
  const size_t most = kFoldBytes / element;
  for (size_t done = 0; done < count; done += most) {
    const size_t n = std::min(most, count - done);
    const size_t at = done * element;
    const std::byte* held = part(0) + at;
    for (int rank = 1; rank < nranks; ++rank) {
      const ReduceFunction reduce = rank + 1 == nranks ? reduction.last : reduction.hop;
      reduce(out + at, held, part(rank) + at, n, divisor);
      held = out + at;
    }
  }
}

}  // namespace ccore
