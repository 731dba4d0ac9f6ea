// Which spanning trees to reduce over, and which share of the data each takes, so that all links are busy: a packing
// (G. Wang et al., "Blink: Fast and Generic Collectives for Distributed ML", MLSys 2020).
#pragma once

#include <vector>

#include "schedule/trees.h"
#include "topology/link_matrix.h"

namespace ccore {

// A tree of depth 1 from every rank, all of one share: the best where all links are alike, as behind a switch.
std::vector<Tree> star_trees(int nranks);

// The links must join all ranks. Of the packings that it finds within 5 % of the fastest one, the flattest, and of these
// that of the fewest trees. The same on every rank that has the same matrix.
std::vector<Tree> pack_trees(const LinkMatrix& links);

// How long the busiest link takes for 10^9 bytes of data: over an edge of a tree its share goes up and comes down,
// at the same time.
double seconds_per_gbyte(const std::vector<Tree>& trees, const LinkMatrix& links);
// Of the deepest tree: messages from its farthest rank to its root.
int depth_of(const std::vector<Tree>& trees);

}  // namespace ccore
