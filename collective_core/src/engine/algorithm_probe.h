// Measures the algorithms of a collective by running them: what a choice between them needs to know of this machine.
#pragma once

#include <vector>

#include "collectives/context.h"
#include "collectives/measured.h"

namespace ccore {

// One run to be timed.
struct ProbePoint {
  Kind kind;
  Algorithm algorithm;
  size_t bytes;  // of the largest buffer of a rank
  Way way = Way::ordinary;
};

// What to measure before the first operation of this collective and group of sizes. Empty: there is nothing to choose. A
// pure function of what all ranks know. The first point is the one by which older timings are verified.
std::vector<ProbePoint> probe_plan(Kind kind, SizeGroup group, const Shape& shape);

// Collective over all ranks of the context, as a part of its operation. Returns the slowest rank's times, equal on all
// ranks; none if a rank has no memory for it.
std::vector<Timing> measure(const Context& context, const std::vector<ProbePoint>& points);

}  // namespace ccore
