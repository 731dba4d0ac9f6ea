// The algorithms by name, and which of them each collective has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "collectives/operation.h"
#include "topology/node.h"

namespace ccore {

enum class Algorithm : int8_t {
  none = -1,
  oneshot,
  twoshot,
  ring,
  doubling,
  chain,
  tree,
  direct,
  pairwise,
  dissemination,
  hierarchical,  // "2d"
  halving,
  double_tree,
  n_trees,
  cma,
};

// "ring", as in CCORE_ALGO and in docs/algorithms.md.
const char* name_of(Algorithm algorithm);
// "all_reduce"; the collectives that CCORE_ALGO may name are those of which there are algorithms_of().
const char* name_of(Kind kind);
// The reverse of both.
std::optional<Kind> kind_of_name(const std::string& name);
Algorithm algorithm_of_name(const std::string& name);  // none: there is no such algorithm
constexpr int kKinds = static_cast<int>(Kind::all_gatherv) + 1;

// How the ranks lie on the nodes; all that the choice needs of their places.
struct Shape {
  int nranks = 1;
  int nodes = 1;
  int least_local = 1;  // ranks of the smallest node
  int most_local = 1;   // of the largest one
  bool shared = false;  // all ranks share the memory of one node (transport/shm/arena.h)
  bool linked = false;  // the user has said what their links carry (topology/link_matrix.h)
  bool crossed = false;  // and the kernel lets them copy from and to each other's (transport/shm/cross_memory.h)
  bool socketed = false;  // ranks of one node reach each other by sockets
};
Shape shape_of(const std::vector<Place>& places);

// A short list without a heap: the choice is made for every operation.
class Algorithms {
 public:
  Algorithms(std::initializer_list<Algorithm> items) {
    for (const Algorithm item : items) add(item);
  }
  void add(Algorithm item) { items_[count_++] = item; }
  const Algorithm* begin() const { return items_.data(); }
  const Algorithm* end() const { return items_.data() + count_; }
  bool empty() const { return count_ == 0; }
  bool has(Algorithm algorithm) const;
  std::string names() const;  // "ring, doubling"

 private:
  std::array<Algorithm, 16> items_{};
  size_t count_ = 0;
};

// Whether it goes through the memory of a node, and over no links.
bool in_shared_memory(Algorithm algorithm);

// All that can run this collective on ranks in this shape; of equally good ones the first is taken. None for
// transfers and for what is made of other collectives.
Algorithms algorithms_of(Kind kind, const Shape& shape);

}  // namespace ccore
