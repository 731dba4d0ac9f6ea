// Which algorithm an operation takes: a pure function of what all ranks know alike.
#pragma once

#include <array>
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
  Algorithm between = Algorithm::none;  // of all_reduce between nodes, in 2d or of one rank each; none: no wish
  int32_t intra_size = 0;    // emulated nodes of that many consecutive ranks; 0: the real ones
  int32_t hierarchical = 1;  // 0: 2d is not taken unless it is forced
  int64_t hierarchical_threshold = 64 * 1024;  // bytes; 2d and n_trees are not taken for less unless forced
  int64_t hierarchical_limit = INT64_MAX;      // bytes; 2d is not taken for more unless it is forced

  Overrides();
  bool operator==(const Overrides& other) const;
  // Whether 2d may be taken for as many bytes by a choice that is not forced.
  bool allows_2d(size_t bytes) const { return hierarchical != 0 && bytes <= static_cast<size_t>(hierarchical_limit); }
};

// From CCORE_ALGO ("all_reduce:ring,broadcast:tree"), CCORE_INTRA_SIZE, CCORE_2D, CCORE_2D_BETWEEN, CCORE_2D_LIMIT and
// CCORE_HIERARCHICAL_THRESHOLD. Throws CC_ERROR_INVALID_ARGUMENT with the known names.
Overrides overrides_from_env();
// The list of CCORE_ALGO. setting: what the error calls it.
void parse_forced(const std::string& setting, const std::string& text, Overrides* overrides);

// The forced one if it can run on this shape; n_trees where the links are known; 2d where there is something to gain on
// both levels and the overrides allow it; the one between nodes, if one is wished and each node has one rank; else the one
// that takes least, as was measured, else by the model.
Algorithm choose(Kind kind, size_t bytes, const Shape& shape, const Overrides& overrides, const CostModel& model);

// What 2d runs between the nodes for an all_reduce of as many bytes: the choice of the ranks of one rail. Each node has one
// rank of the rail, and the rails share the network.
Algorithm choose_between(size_t bytes, const Shape& shape, const Overrides& overrides, const CostModel& model);

// The last choices of one chooser, since programs call the same sizes again and again, and a small operation takes hardly
// longer than a look at the model. A copy begins with none: it may get other wishes.
class RememberedChoices {
 public:
  RememberedChoices() = default;
  RememberedChoices(const RememberedChoices&) {}
  RememberedChoices& operator=(const RememberedChoices&) {
    choices_ = {};
    return *this;
  }

  template <typename Choose>
  Algorithm get(Kind kind, size_t bytes, Choose choose) {
    Choice& choice = choices_[(bytes ^ bytes >> 8 ^ bytes >> 16 ^ static_cast<size_t>(kind)) % choices_.size()];
    if (choice.algorithm == Algorithm::none || choice.kind != kind || choice.bytes != bytes) {
      choice = Choice{bytes, kind, choose()};
    }
    return choice.algorithm;
  }

 private:
  struct Choice {
    size_t bytes = 0;
    Kind kind = Kind::barrier;
    Algorithm algorithm = Algorithm::none;  // nothing is remembered here
  };
  std::array<Choice, 16> choices_{};
};

// What a communicator knows of it. Its parts do not change after the first choice.
struct Chooser {
  Shape shape;
  Overrides overrides;
  CostModel model;
  const std::vector<Tree>* trees = nullptr;  // over which n_trees reduces; null: a star from every rank
  Algorithm* chosen = nullptr;  // where the last choice is noted, for the flight recorder
  mutable RememberedChoices remembered{};  // used by one operation at a time

  Algorithm choose(Kind kind, size_t bytes) const {
    const Algorithm algorithm =
        remembered.get(kind, bytes, [&] { return ccore::choose(kind, bytes, shape, overrides, model); });
    if (chosen) *chosen = algorithm;
    return algorithm;
  }
};

}  // namespace ccore
