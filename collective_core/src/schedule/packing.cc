#include "schedule/packing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "common/index.h"
#include "schedule/disjoint_trees.h"

namespace ccore {
namespace {

constexpr double kTolerance = 1.05;
constexpr int kMostUnits = 8;     // into which the weakest and the strongest link are cut
constexpr size_t kMostEdges = 512;  // of a multigraph that is packed: milliseconds
constexpr int kStarShares = 8;    // of the largest of unequal stars

struct Candidate {
  std::vector<Tree> trees;
  double seconds = 0;
  int depth = 0;
};

// Hangs the tree at its middle, which makes it as flat as it can be.
Tree rooted(int nranks, const std::vector<Edge>& edges, const std::vector<int>& chosen) {
  std::vector<std::vector<int>> neighbours(at(nranks));
  for (const int edge : chosen) {
    const Edge& ends = edges[at(edge)];
    neighbours[at(ends.a)].push_back(ends.b);
    neighbours[at(ends.b)].push_back(ends.a);
  }
  const auto hang_at = [&](int root, int* farthest) {
    std::vector<int> parent(at(nranks), kNone);
    std::vector<int> order = {root};
    for (size_t i = 0; i < order.size(); ++i) {
      for (const int next : neighbours[at(order[i])]) {
        if (next == parent[at(order[i])]) continue;
        parent[at(next)] = order[i];
        order.push_back(next);
      }
    }
    *farthest = order.back();
    return parent;
  };
  int end = 0;
  int start = 0;
  hang_at(0, &end);
  const std::vector<int> along = hang_at(end, &start);
  std::vector<int> longest = {start};
  while (along[at(longest.back())] != kNone) longest.push_back(along[at(longest.back())]);
  int unused = 0;
  Tree tree;
  tree.parent = hang_at(longest[longest.size() / 2], &unused);
  return tree;
}

// Equal trees become one of a larger share; shares have no common divisor.
std::vector<Tree> merged(const std::vector<Tree>& trees) {
  std::map<std::vector<int>, int> shares;
  for (const Tree& tree : trees) shares[tree.parent] += tree.share;
  int divisor = 0;
  for (const auto& [parent, share] : shares) divisor = std::gcd(divisor, share);
  std::vector<Tree> all;
  for (const auto& [parent, share] : shares) all.push_back(Tree{parent, share / divisor});
  return all;
}

// Stars that fill their links as far as each other's shares leave them: both ends' stars use a link.
std::vector<Tree> weighted_stars(const LinkMatrix& links) {
  const int p = links.nranks;
  std::vector<double> weight(at(p));
  for (int rank = 0; rank < p; ++rank) {
    double least = std::numeric_limits<double>::infinity();
    for (int other = 0; other < p; ++other) {
      if (other != rank) least = std::min(least, links.between(rank, other));
    }
    weight[at(rank)] = least / 2;
  }
  for (int rank = 0; rank < p; ++rank) {
    double room = std::numeric_limits<double>::infinity();
    for (int other = 0; other < p; ++other) {
      if (other != rank) room = std::min(room, links.between(rank, other) - weight[at(rank)] - weight[at(other)]);
    }
    weight[at(rank)] += room;
  }
  const double most = *std::max_element(weight.begin(), weight.end());
  std::vector<Tree> stars = star_trees(p);
  std::vector<Tree> some;
  for (int rank = 0; rank < p && most > 0; ++rank) {
    stars[at(rank)].share = static_cast<int>(std::lround(weight[at(rank)] / most * kStarShares));
    if (stars[at(rank)].share > 0) some.push_back(stars[at(rank)]);
  }
  return some;
}

// The one tree whose weakest link is as strong as can be.
Tree strongest_tree(const LinkMatrix& links) {
  const int p = links.nranks;
  std::vector<Edge> edges;
  std::vector<int> joined_by(at(p), 0);  // the rank of the tree to which each other rank has the strongest link
  std::vector<bool> in_tree(at(p));
  in_tree[0] = true;
  for (int count = 1; count < p; ++count) {
    int next = kNone;
    const auto strength = [&](int rank) { return links.between(rank, joined_by[at(rank)]); };
    for (int rank = 0; rank < p; ++rank) {
      if (!in_tree[at(rank)] && (next == kNone || strength(rank) > strength(next))) next = rank;
    }
    in_tree[at(next)] = true;
    edges.push_back(Edge{joined_by[at(next)], next});
    for (int rank = 0; rank < p; ++rank) {
      if (!in_tree[at(rank)] && links.between(rank, next) > strength(rank)) joined_by[at(rank)] = next;
    }
  }
  std::vector<int> all(edges.size());
  std::iota(all.begin(), all.end(), 0);
  return rooted(p, edges, all);
}

// As many parallel edges for each link as it has units.
std::vector<Edge> edges_of(const LinkMatrix& links, double unit) {
  std::vector<Edge> edges;
  for (int a = 0; a < links.nranks; ++a) {
    for (int b = a + 1; b < links.nranks; ++b) {
      // A link that is a hair below a whole number of units has that number.
      const auto count = static_cast<int>(links.between(a, b) / unit * 1.0001);
      for (int i = 0; i < count && edges.size() <= kMostEdges; ++i) edges.push_back(Edge{a, b});
    }
  }
  return edges;
}

std::vector<double> units_of(const LinkMatrix& links) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (int a = 0; a < links.nranks; ++a) {
    for (int b = 0; b < a; ++b) {
      const double link = links.between(a, b);
      if (link > 0) least = std::min(least, link);
      most = std::max(most, link);
    }
  }
  std::vector<double> units;
  for (int parts = 1; parts <= kMostUnits; ++parts) {
    units.push_back(most / parts);
    units.push_back(least / parts);
  }
  return units;
}

}  // namespace

std::vector<Tree> star_trees(int nranks) {
  std::vector<Tree> stars;
  for (int root = 0; root < nranks; ++root) {
    Tree star{std::vector<int>(at(nranks), root)};
    star.parent[at(root)] = kNone;
    stars.push_back(std::move(star));
  }
  return stars;
}

double seconds_per_gbyte(const std::vector<Tree>& trees, const LinkMatrix& links) {
  int shares = 0;
  std::map<std::pair<int, int>, int> load;
  for (const Tree& tree : trees) {
    shares += tree.share;
    for (size_t rank = 0; rank < tree.parent.size(); ++rank) {
      if (tree.parent[rank] == kNone) continue;
      load[std::minmax(static_cast<int>(rank), static_cast<int>(tree.parent[rank]))] += tree.share;
    }
  }
  double seconds = 0;
  for (const auto& [link, share] : load) {
    seconds = std::max(seconds, share / (shares * links.between(link.first, link.second)));
  }
  return seconds;
}

int depth_of(const std::vector<Tree>& trees) {
  int deepest = 0;
  for (const Tree& tree : trees) {
    for (size_t rank = 0; rank < tree.parent.size(); ++rank) {
      int depth = 0;
      for (int above = tree.parent[rank]; above != kNone; above = tree.parent[at(above)]) ++depth;
      deepest = std::max(deepest, depth);
    }
  }
  return deepest;
}

std::vector<Tree> pack_trees(const LinkMatrix& links) {
  if (links.nranks < 2) return star_trees(links.nranks);
  std::vector<Candidate> candidates;
  const auto consider = [&](const std::vector<Tree>& trees) {
    if (trees.empty()) return;
    const double seconds = seconds_per_gbyte(trees, links);
    if (std::isfinite(seconds)) candidates.push_back(Candidate{trees, seconds, depth_of(trees)});
  };
  consider(star_trees(links.nranks));
  consider(weighted_stars(links));
  // No packing is faster than all links together, of which each tree needs one less than there are ranks.
  double all_links = 0;
  for (int a = 0; a < links.nranks; ++a) {
    for (int b = 0; b < a; ++b) all_links += links.between(a, b);
  }
  const double bound = (links.nranks - 1) / all_links;
  const bool perfect = std::any_of(candidates.begin(), candidates.end(),
                                   [&](const Candidate& one) { return one.seconds <= bound * kTolerance; });
  if (!perfect) {
    consider({strongest_tree(links)});
    for (const double unit : units_of(links)) {
      const std::vector<Edge> edges = edges_of(links, unit);
      if (edges.size() > kMostEdges) continue;
      std::vector<Tree> trees;
      for (const std::vector<int>& chosen : disjoint_spanning_trees(links.nranks, edges)) {
        trees.push_back(rooted(links.nranks, edges, chosen));
      }
      consider(merged(trees));
    }
  }
  const double fastest = std::min_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
                           return a.seconds < b.seconds;
                         })->seconds;
  const auto better = [&](const Candidate& a, const Candidate& b) {
    return std::make_pair(a.depth, a.trees.size()) < std::make_pair(b.depth, b.trees.size());
  };
  const Candidate* best = nullptr;
  for (const Candidate& one : candidates) {
    if (one.seconds <= fastest * kTolerance && (!best || better(one, *best))) best = &one;
  }
  return best->trees;
}

}  // namespace ccore
