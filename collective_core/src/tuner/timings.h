// Measured times as lines of the table that outlives a job (tuner/cache.h).
#pragma once

#include <string>
#include <utility>

#include "collectives/measured.h"

namespace ccore {

std::pair<std::string, std::string> line_of(const Timing& timing);
// Of an algorithm that this version knows. Throws std::invalid_argument if the line is not a timing.
Timing timing_of(const std::string& name, const std::string& value);

}  // namespace ccore
