// |x| as an integer: the bits of the value without its sign order as the magnitudes do, zero and denormals
// included. Infinity is above every finite value and NaN above infinity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ccore {

constexpr uint32_t kMagnitudeBits = 0x7fffffff;
constexpr uint32_t kInfiniteMagnitude = 0x7f800000;

inline uint32_t magnitude(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits & kMagnitudeBits;
}

// Calls take(i) for every i in [0, count) with magnitude(x[i]) >= floor, in order. Where few elements qualify,
// it costs a vectorised comparison of 16 at a time.
template <typename Take>
void for_each_at_least(const float* x, size_t count, uint32_t floor, Take take) {
  constexpr size_t kBatch = 16;
  size_t i = 0;
  for (; i + kBatch <= count; i += kBatch) {
    // Signed, because that is what the oldest vector units compare; magnitudes have 31 bits.
    int32_t hits = 0;
    for (size_t j = 0; j < kBatch; ++j) {
      hits |= static_cast<int32_t>(magnitude(x[i + j])) >= static_cast<int32_t>(floor) ? 1 : 0;
    }
    if (hits == 0) continue;
    for (size_t j = 0; j < kBatch; ++j) {
      if (magnitude(x[i + j]) >= floor) take(i + j);
    }
  }
  for (; i < count; ++i) {
    if (magnitude(x[i]) >= floor) take(i);
  }
}

}  // namespace ccore
