// The file in which measured times outlive a job. It is checked as the file of choices is (tuner/cache.h): what is not as
// it was written makes the whole file worthless, and never more than that.
#pragma once

#include <string>
#include <vector>

#include "collectives/measured.h"
#include "tuner/cache.h"

namespace ccore {

// More than there are points to measure.
constexpr size_t kMostTimings = 192;

std::string format_timings(const CacheIdentity& identity, const std::vector<Timing>& timings);
// Of algorithms that this version knows. Throws std::invalid_argument, which says what is wrong.
std::vector<Timing> parse_timings(const CacheIdentity& identity, const std::string& text);

}  // namespace ccore
