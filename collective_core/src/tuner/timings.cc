#include "tuner/timings.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "common/error.h"

namespace ccore {
namespace {

constexpr const char* kTimingsTitle = "collective_core timings 1";
constexpr int kMostAlgorithms = 32;
constexpr const char* kWays[] = {"ordinary", "past-caches", "shared-lines"};  // by Way

bool find_names(const std::string& collective, const std::string& algorithm, Timing* timing) {
  for (int kind = 1; kind < kKinds; ++kind) {
    if (collective == name_of(static_cast<Kind>(kind))) timing->kind = static_cast<uint8_t>(kind);
  }
  for (int one = 0; one < kMostAlgorithms; ++one) {
    if (algorithm == name_of(static_cast<Algorithm>(one))) {
      timing->algorithm = static_cast<int8_t>(one);
      return timing->kind != 0;
    }
  }
  return false;
}

// Nanoseconds, so that no locale is in the way.
Timing timing_of(const std::string& line) {
  std::istringstream words(line);
  std::string title, collective, algorithm, way, more;
  uint64_t bytes = 0, ns = 0;
  words >> title >> collective >> algorithm >> way >> bytes >> ns;
  Timing timing;
  const auto named = std::find(std::begin(kWays), std::end(kWays), way);
  if (!words || words >> more || title != "timing" || named == std::end(kWays) || bytes > UINT32_MAX ||
      !find_names(collective, algorithm, &timing)) {
    throw std::invalid_argument("a line is not a timing");
  }
  timing.way = static_cast<Way>(named - std::begin(kWays));
  timing.bytes = static_cast<uint32_t>(bytes);
  timing.us = static_cast<float>(static_cast<double>(ns) / 1000);
  if (!is_plausible(timing)) throw std::invalid_argument("a time is out of its range");
  return timing;
}

}  // namespace

std::string format_timings(const CacheIdentity& identity, const std::vector<Timing>& timings) {
  std::string lines;
  for (const Timing& one : timings) {
    lines += format("timing %s %s %s %u %lld\n", name_of(static_cast<Kind>(one.kind)),
                    name_of(static_cast<Algorithm>(one.algorithm)), kWays[static_cast<size_t>(one.way)], one.bytes,
                    std::llround(static_cast<double>(one.us) * 1000));
  }
  return format_lines(kTimingsTitle, identity, lines);
}

std::vector<Timing> parse_timings(const CacheIdentity& identity, const std::string& text) {
  std::vector<Timing> timings;
  for (const std::string& line : parse_lines(kTimingsTitle, identity, text, kMostTimings)) {
    timings.push_back(timing_of(line));
  }
  return timings;
}

}  // namespace ccore
