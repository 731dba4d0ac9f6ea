#include "compress/radix_select.h"

#include <array>

#include "compress/magnitude.h"

namespace ccore {
namespace {

constexpr unsigned kHighBits = 11;
constexpr unsigned kLowBits = 10;
using Bins = std::array<size_t, size_t{1} << kHighBits>;

Bins high_histogram(const float* x, size_t count) {
  // Neighbours in memory often fall into one bin; counting them in turn in four tables keeps each increment
  // from waiting for the one before it.
  constexpr unsigned kTables = 4;
  constexpr unsigned kShift = 31 - kHighBits;
  std::array<std::array<uint32_t, size_t{1} << kHighBits>, kTables> tables;
  Bins bins{};
  constexpr size_t kMost = size_t{1} << 31;  // of elements that the small counters hold
  for (size_t begin = 0; begin < count; begin += kMost) {
    const size_t end = count - begin < kMost ? count : begin + kMost;
    for (auto& table : tables) table.fill(0);
    size_t i = begin;
    for (; i + kTables <= end; i += kTables) {
      for (unsigned t = 0; t < kTables; ++t) ++tables[t][magnitude(x[i + t]) >> kShift];
    }
    for (; i < end; ++i) ++tables[0][magnitude(x[i]) >> kShift];
    for (const auto& table : tables) {
      for (size_t b = 0; b < bins.size(); ++b) bins[b] += table[b];
    }
  }
  return bins;
}

// Of the elements whose bits above the digit are those of `prefix`.
Bins low_histogram(const float* x, size_t count, uint32_t prefix, unsigned shift) {
  Bins bins{};
  const unsigned above = shift + kLowBits;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t key = magnitude(x[i]);
    if (key >> above == prefix >> above) ++bins[key >> shift & ((1u << kLowBits) - 1)];
  }
  return bins;
}

// The bin of the k-th largest, and which one it is among those in the bin.
struct InBin {
  uint32_t bin;
  size_t rank;
  bool whole;  // it is the smallest of the bin: all in the bin are wanted
};

InBin place_in(const Bins& bins, size_t k) {
  auto bin = static_cast<uint32_t>(bins.size() - 1);
  while (bin > 0 && bins[bin] < k) k -= bins[bin--];
  return InBin{bin, k, bins[bin] == k};
}

}  // namespace

Cut cut_at(const float* x, size_t count, size_t k) {
  unsigned shift = 31 - kHighBits;
  InBin place = place_in(high_histogram(x, count), k);
  uint32_t key = place.bin << shift;
  while (shift > 0 && !place.whole) {
    shift -= kLowBits;
    place = place_in(low_histogram(x, count, key, shift), place.rank);
    key |= place.bin << shift;
  }
  // Of a whole bin, no more than `rank` elements can be equal to its lower end.
  return Cut{key, place.rank};
}

void select_by(const Cut& cut, const float* x, size_t count, size_t k, uint32_t* indices) {
  size_t taken = 0;
  size_t ties = cut.ties;
  for_each_at_least(x, count, cut.key, [&](size_t i) {
    if (magnitude(x[i]) == cut.key) {
      if (ties == 0) return;
      --ties;
    }
    if (taken < k) indices[taken++] = static_cast<uint32_t>(i);
  });
}

}  // namespace ccore
