// Parts of a communicator's ranks as communicators of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/communicator.h"

namespace ccore {

// What a rank asks for.
struct SplitWish {
  int32_t color = CC_SPLIT_NOCOLOR;
  int32_t key = 0;
};

// The ranks with the color of rank `self`, in the order of key, then rank. Empty: it wants no part.
std::vector<int> split_members(const std::vector<SplitWish>& wishes, int self);

// A place in a communicator that does not exist yet.
struct Seat {
  UniqueId id;
  int rank;
  int nranks;
  Settings settings;
};

// An operation of all ranks of the parent: who belongs together, and where they meet. Nothing: no color. Zero fields
// of config mean as in the parent.
std::optional<Seat> split(Communicator* parent, const SplitWish& wish, const cc_config* config);

}  // namespace ccore
