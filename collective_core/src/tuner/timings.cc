#include "tuner/timings.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>

#include "common/error.h"

namespace ccore {
namespace {

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

}  // namespace

std::pair<std::string, std::string> line_of(const Timing& timing) {
  // Nanoseconds, so that no locale is in the way.
  return {
      format("timing %s %s %s %u", name_of(static_cast<Kind>(timing.kind)),
             name_of(static_cast<Algorithm>(timing.algorithm)), kWays[static_cast<size_t>(timing.way)], timing.bytes),
      format("%lld", std::llround(static_cast<double>(timing.us) * 1000))};
}

Timing timing_of(const std::string& name, const std::string& value) {
  std::istringstream words(name + " " + value);
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

}  // namespace ccore
