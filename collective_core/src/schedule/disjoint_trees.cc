#include "schedule/disjoint_trees.h"

#include <numeric>

#include "common/index.h"
#include "schedule/schedule.h"

namespace ccore {
namespace {

// Forests over the same nodes, no edge in two of them.
class Forests {
 public:
  Forests(int nodes, const std::vector<Edge>& edges)
      : nodes_(nodes), edges_(edges), forest_of_(edges.size(), kNone), clump_(at(nodes)) {}

  void add_forest() {
    hangings_.emplace_back();
    hang(static_cast<int>(hangings_.size()) - 1);
    std::iota(clump_.begin(), clump_.end(), 0);
  }

  bool used(int edge) const { return forest_of_[at(edge)] != kNone; }

  // Puts one edge more into the forests, exchanging others between them; false if that cannot be.
  bool augment(int start) {
    if (clump_of(edges_[at(start)].a) == clump_of(edges_[at(start)].b)) return false;
    std::vector<int> before(edges_.size(), kNone);  // the edge that would take this one's place
    std::vector<bool> seen(edges_.size());
    std::vector<int> order = {start};
    seen[at(start)] = true;
    for (size_t i = 0; i < order.size(); ++i) {
      const int edge = order[i];
      for (int forest = 0; forest < static_cast<int>(hangings_.size()); ++forest) {
        if (forest == forest_of_[at(edge)]) continue;
        if (!joins(forest, edges_[at(edge)])) {
          exchange(edge, forest, before);
          return true;
        }
        for_path(forest, edges_[at(edge)], [&](int other) {
          if (seen[at(other)]) return;
          seen[at(other)] = true;
          before[at(other)] = edge;
          order.push_back(other);
        });
      }
    }
    // Every forest spans what was looked at, and will: no other edge within it has a place either.
    for (const int edge : order) clump_[at(clump_of(edges_[at(edge)].a))] = clump_of(edges_[at(edge)].b);
    return false;
  }

  std::vector<std::vector<int>> trees() const {
    std::vector<std::vector<int>> all(hangings_.size());
    for (size_t edge = 0; edge < edges_.size(); ++edge) {
      if (forest_of_[edge] != kNone) all[at(forest_of_[edge])].push_back(static_cast<int>(edge));
    }
    return all;
  }

 private:
  // A forest with every tree hung at one of its nodes.
  struct Hanging {
    std::vector<int> above;    // the edge to the node above; kNone: a root
    std::vector<int> up;       // that node
    std::vector<int> depth;
    std::vector<int> root;
  };

  bool joins(int forest, const Edge& edge) const {
    const Hanging& hanging = hangings_[at(forest)];
    return hanging.root[at(edge.a)] == hanging.root[at(edge.b)];
  }

  // The edges of the forest between the ends of `edge`, which it joins.
  template <typename Visit>
  void for_path(int forest, const Edge& edge, Visit visit) const {
    const Hanging& hanging = hangings_[at(forest)];
    for (int a = edge.a, b = edge.b; a != b;) {
      int& lower = hanging.depth[at(a)] >= hanging.depth[at(b)] ? a : b;
      visit(hanging.above[at(lower)]);
      lower = hanging.up[at(lower)];
    }
  }

  void hang(int forest) {
    std::vector<std::vector<int>> incident(at(nodes_));
    for (size_t edge = 0; edge < edges_.size(); ++edge) {
      if (forest_of_[edge] != forest) continue;
      incident[at(edges_[edge].a)].push_back(static_cast<int>(edge));
      incident[at(edges_[edge].b)].push_back(static_cast<int>(edge));
    }
    Hanging& hanging = hangings_[at(forest)];
    hanging = Hanging{std::vector<int>(at(nodes_), kNone), std::vector<int>(at(nodes_), kNone),
                      std::vector<int>(at(nodes_)), std::vector<int>(at(nodes_), kNone)};
    for (int root = 0; root < nodes_; ++root) {
      if (hanging.root[at(root)] != kNone) continue;
      hanging.root[at(root)] = root;
      std::vector<int> order = {root};
      for (size_t i = 0; i < order.size(); ++i) {
        const int node = order[i];
        for (const int edge : incident[at(node)]) {
          const int far = edges_[at(edge)].a == node ? edges_[at(edge)].b : edges_[at(edge)].a;
          if (hanging.root[at(far)] != kNone) continue;
          hanging.root[at(far)] = root;
          hanging.above[at(far)] = edge;
          hanging.up[at(far)] = node;
          hanging.depth[at(far)] = hanging.depth[at(node)] + 1;
          order.push_back(far);
        }
      }
    }
  }

  void exchange(int edge, int forest, const std::vector<int>& before) {
    std::vector<int> changed;
    for (int taken = edge; taken != kNone; taken = before[at(taken)]) {
      const int left = forest_of_[at(taken)];
      forest_of_[at(taken)] = forest;
      changed.push_back(forest);
      forest = left;
    }
    for (const int one : changed) hang(one);
  }

  int clump_of(int node) const {
    while (clump_[at(node)] != node) node = clump_[at(node)];
    return node;
  }

  int nodes_;
  const std::vector<Edge>& edges_;
  std::vector<int> forest_of_;  // by edge
  std::vector<Hanging> hangings_;
  std::vector<int> clump_;  // nodes between which no forest has room: to another of the clump, or itself
};

}  // namespace

std::vector<std::vector<int>> disjoint_spanning_trees(int nodes, const std::vector<Edge>& edges) {
  std::vector<std::vector<int>> found;
  if (nodes < 2) return found;
  const size_t of_a_tree = at(nodes - 1);
  Forests forests(nodes, edges);
  size_t used = 0;
  while ((found.size() + 1) * of_a_tree <= edges.size()) {
    forests.add_forest();
    for (size_t edge = 0; edge < edges.size() && used < (found.size() + 1) * of_a_tree; ++edge) {
      const auto index = static_cast<int>(edge);
      if (!forests.used(index) && forests.augment(index)) ++used;
    }
    // An edge that finds no place now finds none later: the forests hold as many as so many forests can.
    if (used < (found.size() + 1) * of_a_tree) break;
    found = forests.trees();
  }
  return found;
}

}  // namespace ccore
