// Which algorithm an operation takes: a pure function of what all ranks know alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/algorithm.h"
#include "collectives/cost.h"
#include "schedule/trees.h"

namespace ccore {

// The user's wishes. Rank 0's hold for all ranks, hence plain bytes.
struct Overrides {
  Algorithm forced[kKinds];  // by kind; none: no wish
  int32_t intra_size = 0;    // emulated nodes of that many consecutive ranks; 0: the real ones
  int32_t hierarchical = 1;  // 0: 2d is not taken unless it is forced
  int64_t hierarchical_threshold = 64 * 1024;  // bytes; 2d and n_trees are not taken for less unless forced
  int64_t hierarchical_limit = INT64_MAX;      // bytes; 2d is not taken for more unless it is forced

  Overrides();
  bool operator==(const Overrides& other) const;
  // Whether 2d may be taken for as many bytes by whoever is not forced to.
  bool allows_2d(size_t bytes) const { return hierarchical != 0 && bytes <= static_cast<size_t>(hierarchical_limit); }
};

// From CCORE_ALGO ("all_reduce:ring,broadcast:tree"), CCORE_INTRA_SIZE, CCORE_2D, CCORE_2D_LIMIT and
// CCORE_HIERARCHICAL_THRESHOLD. Throws CC_ERROR_INVALID_ARGUMENT with the known names.
Overrides overrides_from_env();
// The list of CCORE_ALGO. setting: what the error calls it.
void parse_forced(const std::string& setting, const std::string& text, Overrides* overrides);

// The forced one if it can run on this shape; n_trees where the links are known; 2d where there is something to gain on
// both levels and the overrides allow it; else the one that the model says is fastest.
Algorithm choose(Kind kind, size_t bytes, const Shape& shape, const Overrides& overrides,
                 const CostModel& model);

// What a communicator knows of it.
struct Chooser {
  Shape shape;
  Overrides overrides;
  CostModel model;
  const std::vector<Tree>* trees = nullptr;  // over which n_trees reduces; null: a star from every rank
  Algorithm* chosen = nullptr;  // where the last choice is noted, for the flight recorder

  Algorithm choose(Kind kind, size_t bytes) const {
    const Algorithm algorithm = ccore::choose(kind, bytes, shape, overrides, model);
    if (chosen) *chosen = algorithm;
    return algorithm;
  }
};

}  // namespace ccore
