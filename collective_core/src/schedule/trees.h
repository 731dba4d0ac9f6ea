// All-reduce over several spanning trees at once: each reduces its share of the data to its root and sends the
// result back, in chunks.
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace ccore {

struct Tree {
  std::vector<int> parent;  // by rank; kNone: the root
  int share = 1;            // of the data, in proportion to those of the other trees
};

// Two binary trees of which one has as leaves the inner ranks of the other, so that together every rank sends and
// receives about as much as any other (P. Sanders, J. Speck, J. Traeff, "Two-tree algorithms for full bandwidth
// broadcast, reduction and scan", 2009).
std::vector<Tree> double_binary_tree(int nranks);

// A tree has share*chunks blocks, which begin where those of the tree before it end. Every peer is a lane of its own. A
// link that several trees use carries their messages in the order in which they could come if every one took the same
// time, and each tree got on in proportion to its share.
Schedule tree_all_reduce(int rank, const std::vector<Tree>& trees, int chunks);

}  // namespace ccore
