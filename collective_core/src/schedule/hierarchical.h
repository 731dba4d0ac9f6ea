// All-reduce in two dimensions: within the nodes, and between ranks of different nodes.
#pragma once

#include <vector>

#include "schedule/schedule.h"
#include "topology/node.h"

namespace ccore {

// A part of every chunk is gathered on each of the first ranks of a node, as many as the smallest node has (the
// rails); those with the same part run a ring between the nodes; then each gives its part to its node. Between
// the nodes it carries 2(m-1)/m of the data for m nodes, whatever the number of ranks. Chunks overlap: the links
// within the nodes are lane 0, those between them lane 1.
Schedule hierarchical_all_reduce(int rank, const std::vector<Place>& places, int chunks);

}  // namespace ccore
