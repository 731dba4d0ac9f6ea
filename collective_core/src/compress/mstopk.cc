#include "compress/mstopk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compress/magnitude.h"

namespace ccore {
namespace {

size_t count_at_least(const float* x, size_t count, float threshold) {
  // Partial counts of 32 bits vectorise; a batch never overflows one.
  constexpr size_t kBatch = size_t{1} << 20;
  size_t total = 0;
  for (size_t begin = 0; begin < count; begin += kBatch) {
    const size_t end = count - begin < kBatch ? count : begin + kBatch;
    int32_t hits = 0;
    for (size_t i = begin; i < end; ++i) hits += std::fabs(x[i]) >= threshold ? 1 : 0;
    total += static_cast<size_t>(hits);
  }
  return total;
}

struct Spread {
  float mean;
  float largest;
};

Spread spread_of(const float* x, size_t count) {
  constexpr size_t kLanes = 8;  // sums that do not wait for each other, always in the same order
  std::array<double, kLanes> sums{};
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    sums[i % kLanes] += static_cast<double>(std::fabs(x[i]));
    const uint32_t key = magnitude(x[i]);
    largest = key > largest ? key : largest;
  }
  double sum = 0;
  for (const double lane : sums) sum += lane;
  Spread spread{static_cast<float>(sum / static_cast<double>(count)), 0};
  std::memcpy(&spread.largest, &largest, sizeof largest);
  return spread;
}

}  // namespace

Band mstopk_band(const float* x, size_t count, size_t k, int samplings) {
  const Spread spread = spread_of(x, count);
  // All elements are at least 0, and none reaches the value above the largest.
  Band band{0, std::nextafter(spread.largest, std::numeric_limits<float>::infinity())};
  double low = 0;
  double high = spread.largest;
  double middle = spread.mean;
  for (int i = 0; i <= samplings; ++i, middle = low + (high - low) / 2) {
    const auto threshold = static_cast<float>(middle);
    const size_t found = count_at_least(x, count, threshold);
    if (found <= k) {
      band.upper = std::min(band.upper, threshold);
      high = middle;
    }
    if (found >= k) {
      band.lower = std::max(band.lower, threshold);
      low = middle;
    }
    if (found == k) break;
  }
  return band;
}

void select_mstopk(const float* x, size_t count, size_t k, int samplings, uint32_t* indices) {
  const Band band = mstopk_band(x, count, k, samplings);
  const uint32_t upper = magnitude(band.upper);
  size_t missing = k - count_at_least(x, count, band.upper);
  size_t taken = 0;
  for_each_at_least(x, count, magnitude(band.lower), [&](size_t i) {
    if (magnitude(x[i]) < upper) {
      if (missing == 0) return;
      --missing;
    }
    if (taken < k) indices[taken++] = static_cast<uint32_t>(i);
  });
}

}  // namespace ccore
