// The proof of an all-reduce schedule on sets of contributions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace test {

// The schedules of p ranks.
std::vector<ccore::Schedule> for_all(int p, const std::function<ccore::Schedule(int)>& make);

// Throws Failed unless every rank ends with everything exactly once, whatever a link holds, and an average divides
// every block once, at one rank, or at so many that each complete it for themselves.
void prove(const std::string& what, const std::vector<ccore::Schedule>& schedules, int dividing = 1);

}  // namespace test
