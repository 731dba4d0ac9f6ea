// What algorithms took on this machine, for the choice between them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/algorithm.h"
#include "common/caches.h"

namespace ccore {

// How slots were used (common/caches.h): results written past the caches; lines that a rank has read left shared, and not
// taken over, if that is what the ordinary way does.
enum class Way : uint8_t { ordinary, past_caches, shared_lines };

// Of one algorithm at one size; travels as bytes.
struct Timing {
  uint8_t kind = 0;
  int8_t algorithm = 0;
  Way way = Way::ordinary;
  uint8_t reserved = 0;
  uint32_t bytes = 0;  // M of docs/algorithms.md
  float us = 0;        // of the slowest rank

  bool same_point(const Timing& other) const;
};
static_assert(sizeof(Timing) == 12, "no gaps: goes between ranks and into files");

// Whether it can be what a clock has shown: a time from 10 ns to 10 s, and no more than 10^6 MB/s.
bool is_plausible(const Timing& timing);

// Sizes that are measured together, before the first operation of such a size.
enum class SizeGroup : uint8_t { little, much, vast };  // what caches hold, what hardly fits them, and more
constexpr int kSizeGroups = 3;
// Smaller data is not measured: one meeting costs less than two, and no copy counts.
constexpr size_t kLeastMeasuredBytes = 2048;
constexpr size_t kMuchBytes = size_t{2} << 20;
constexpr size_t kVastBytes = size_t{8} << 20;
// Over links of more than two ranks; larger data would keep a slow line busy for long.
constexpr size_t kMostMeasuredOverLinks = 64 * 1024;
inline bool over_links_of_several(const Shape& shape) { return !shape.shared && shape.nranks > 2; }
// bytes: of the largest buffer of a rank.
SizeGroup size_group(size_t bytes);
// Of a rank, for an operation of M bytes.
size_t largest_buffer(Kind kind, size_t bytes, int nranks);

class Measured {
 public:
  // Puts these instead of what there is of their collectives and groups. If one of a collective is not plausible, none of
  // that collective and group is used.
  void put(const std::vector<Timing>& timings, int nranks);
  const std::vector<Timing>& timings() const { return timings_; }

  // Whether any algorithm of this collective was measured.
  bool has(Kind kind) const;
  // The sizes between which this algorithm was measured, in bytes; both 0: it was not.
  struct Range {
    size_t first = 0;
    size_t last = 0;
  };
  Range range_of(Kind kind, Algorithm algorithm) const;
  // Microseconds: between the measured sizes on a straight line, above them on the last one, below them in proportion to
  // `model`, a function of bytes. Growing with bytes if the model is. None: not measured.
  template <typename Model>
  std::optional<double> us(Kind kind, Algorithm algorithm, double bytes, Model model) const;
  // From which size on results are better written past the caches, as far as it was measured; else as in caches.h.
  size_t past_caches_bytes(Kind kind) const {
    const auto number = static_cast<size_t>(kind);
    return number < past_caches_.size() ? past_caches_[number] : kPastCachesBytes;
  }

  // Whether ranks had better take over the lines that they alone have read; not where it was not measured.
  bool takes_over(Kind kind) const {
    const auto number = static_cast<size_t>(kind);
    return number < takes_over_.size() && takes_over_[number];
  }

 private:
  struct Point {
    double bytes;
    double us;
  };
  static constexpr size_t kMostPoints = 10;
  struct Curve {
    std::array<Point, kMostPoints> points{};
    size_t count = 0;
  };
  static double on_line(const Curve& curve, double bytes);
  Curve curve_of(Kind kind, Algorithm algorithm) const;
  size_t find_past_caches_bytes(Kind kind) const;
  bool find_takes_over(Kind kind) const;
  const Timing* ordinary_of(const Timing& other) const;  // at the same point; null: there is none

  std::vector<Timing> timings_;
  std::vector<size_t> past_caches_;  // by kind; looked up for every operation
  std::vector<bool> takes_over_;     // by kind
};

template <typename Model>
std::optional<double> Measured::us(Kind kind, Algorithm algorithm, double bytes, Model model) const {
  const Curve curve = curve_of(kind, algorithm);
  if (curve.count == 0) return std::nullopt;
  const Point& first = curve.points[0];
  if (bytes >= first.bytes && curve.count > 1) return on_line(curve, bytes);
  return first.us * model(bytes) / model(first.bytes);
}

}  // namespace ccore
