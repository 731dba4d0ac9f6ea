// Spanning trees of a multigraph that share no edge, as many as there are.
#pragma once

#include <vector>

namespace ccore {

struct Edge {
  int a;
  int b;
};

// Every tree as indices into edges. Exact: each edge is put into one of the forests by the shortest chain of
// exchanges (J. Edmonds, "Minimum partition of a matroid into independent subsets", 1965; J. Roskind, R. E. Tarjan, "A
// note on finding minimum-cost edge-disjoint spanning trees", 1985). The time grows with the trees times the square of the edges.
std::vector<std::vector<int>> disjoint_spanning_trees(int nodes, const std::vector<Edge>& edges);

}  // namespace ccore
