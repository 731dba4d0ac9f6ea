#include "collectives/measured.h"

#include <algorithm>
#include <cstdint>

#include "common/caches.h"

namespace ccore {
namespace {

constexpr float kLeastUs = 0.01F;
constexpr float kMostUs = 1e7F;
constexpr float kMostBytesPerUs = 1e6F;

// all_gatherv moves as all_gather does.
uint8_t number_of(Kind kind) { return static_cast<uint8_t>(kind == Kind::all_gatherv ? Kind::all_gather : kind); }

SizeGroup group_of(const Timing& timing, int nranks) {
  return size_group(largest_buffer(static_cast<Kind>(timing.kind), timing.bytes, nranks));
}

}  // namespace

bool Timing::same_point(const Timing& other) const {
  return kind == other.kind && algorithm == other.algorithm && way == other.way && bytes == other.bytes;
}

// Written so that NaN is not plausible.
bool is_plausible(const Timing& timing) {
  return timing.us >= kLeastUs && timing.us <= kMostUs &&
         static_cast<float>(timing.bytes) <= timing.us * kMostBytesPerUs;
}

SizeGroup size_group(size_t bytes) {
  if (bytes < kMuchBytes) return SizeGroup::little;
  return bytes < kVastBytes ? SizeGroup::much : SizeGroup::vast;
}

size_t largest_buffer(Kind kind, size_t bytes, int nranks) {
  return kind == Kind::all_to_all ? bytes / static_cast<size_t>(nranks) : bytes;
}

void Measured::put(const std::vector<Timing>& timings, int nranks) {
  const auto together = [&](const Timing& a, const Timing& b) {
    return a.kind == b.kind && group_of(a, nranks) == group_of(b, nranks);
  };
  const auto replaced = [&](const Timing& old) {
    return std::any_of(timings.begin(), timings.end(), [&](const Timing& one) { return together(one, old); });
  };
  timings_.erase(std::remove_if(timings_.begin(), timings_.end(), replaced), timings_.end());
  for (const Timing& one : timings) {
    const bool spoiled = std::any_of(timings.begin(), timings.end(),
                                     [&](const Timing& other) { return together(one, other) && !is_plausible(other); });
    if (!spoiled) timings_.push_back(one);
  }
  std::stable_sort(timings_.begin(), timings_.end(),
                   [](const Timing& a, const Timing& b) { return a.bytes < b.bytes; });
  past_caches_.clear();
  takes_over_.clear();
  for (int kind = 0; kind < kKinds; ++kind) {
    past_caches_.push_back(find_past_caches_bytes(static_cast<Kind>(kind)));
    takes_over_.push_back(find_takes_over(static_cast<Kind>(kind)));
  }
}

bool Measured::has(Kind kind) const {
  return std::any_of(timings_.begin(), timings_.end(), [&](const Timing& one) { return one.kind == number_of(kind); });
}

Measured::Range Measured::range_of(Kind kind, Algorithm algorithm) const {
  Range range;
  for (const Timing& one : timings_) {  // by bytes, upwards
    if (one.kind != number_of(kind) || one.algorithm != static_cast<int8_t>(algorithm)) continue;
    if (range.last == 0) range.first = one.bytes;
    range.last = one.bytes;
  }
  return range;
}

// Of two ways to write results at one size the faster one. More data takes no less time, whatever was measured.
Measured::Curve Measured::curve_of(Kind kind, Algorithm algorithm) const {
  Curve curve;
  for (const Timing& one : timings_) {
    if (one.kind != number_of(kind) || one.algorithm != static_cast<int8_t>(algorithm)) continue;
    const Point point{static_cast<double>(one.bytes), static_cast<double>(one.us)};
    if (curve.count > 0 && curve.points[curve.count - 1].bytes == point.bytes) {
      Point& last = curve.points[curve.count - 1];
      last.us = std::min(last.us, point.us);
    } else if (curve.count < kMostPoints) {
      curve.points[curve.count++] = point;
    }
  }
  for (size_t i = 1; i < curve.count; ++i) {
    curve.points[i].us = std::max(curve.points[i].us, curve.points[i - 1].us);
  }
  return curve;
}

double Measured::on_line(const Curve& curve, double bytes) {
  size_t right = 1;
  while (right + 1 < curve.count && curve.points[right].bytes < bytes) ++right;
  const Point& a = curve.points[right - 1];
  const Point& b = curve.points[right];
  return a.us + (b.us - a.us) * (bytes - a.bytes) / (b.bytes - a.bytes);
}

size_t Measured::find_past_caches_bytes(Kind kind) const {
  size_t least = kPastCachesBytes;
  for (const Timing& past : timings_) {
    const Timing* ordinary = past.way == Way::past_caches && past.kind == number_of(kind) ? ordinary_of(past) : nullptr;
    if (!ordinary) continue;
    // Where the ordinary way is as fast, the result is still in the caches afterwards.
    if (ordinary->us > past.us) return least;
    least = ordinary->bytes < kVastBytes ? kVastBytes : SIZE_MAX;
  }
  return least;
}

bool Measured::find_takes_over(Kind kind) const {
  return std::any_of(timings_.begin(), timings_.end(), [&](const Timing& shared) {
    const bool wanted = shared.way == Way::shared_lines && shared.kind == number_of(kind);
    const Timing* ordinary = wanted ? ordinary_of(shared) : nullptr;
    return ordinary && ordinary->us < shared.us;
  });
}

const Timing* Measured::ordinary_of(const Timing& other) const {
  const auto found = std::find_if(timings_.begin(), timings_.end(), [&](const Timing& one) {
    Timing same = other;
    same.way = Way::ordinary;
    return one.same_point(same);
  });
  return found == timings_.end() ? nullptr : &*found;
}

}  // namespace ccore
