#include "tuner/timings.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "common/error.h"

namespace ccore {
namespace {

constexpr const char* kWays[] = {"ordinary", "past-caches", "shared-lines"};  // by Way

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
  const auto named = std::find(std::begin(kWays), std::end(kWays), way);
  const std::optional<Kind> kind = kind_of_name(collective);
  const Algorithm one = algorithm_of_name(algorithm);
  if (!words || words >> more || title != "timing" || named == std::end(kWays) || bytes > UINT32_MAX || !kind ||
      one == Algorithm::none) {
    throw std::invalid_argument("a line is not a timing");
  }
  Timing timing;
  timing.kind = static_cast<uint8_t>(*kind);
  timing.algorithm = static_cast<int8_t>(one);
  timing.way = static_cast<Way>(named - std::begin(kWays));
  timing.bytes = static_cast<uint32_t>(bytes);
  timing.us = static_cast<float>(static_cast<double>(ns) / 1000);
  if (!is_plausible(timing)) throw std::invalid_argument("a time is out of its range");
  return timing;
}

}  // namespace ccore
