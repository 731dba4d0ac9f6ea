// What the collectives that only move data say of themselves, for those ways of moving it in which the ranks of a node
// reach their data directly.
#pragma once

#include <cstddef>

#include "collectives/shm/slot_stream.h"

namespace ccore {

struct Leaving {
  const std::byte* at;
  size_t bytes;
};
struct Coming {
  std::byte* at;
  size_t bytes;
};

struct ExchangeShape {
  int root = kNone;                      // if one rank deals with all others, and these with it alone
  StreamRole role = StreamRole::both;    // writes: this rank has data for others
  bool alike = false;                    // a rank has the same data for all others
  size_t largest = 0;                    // bytes of the largest part, as all ranks know
  Leaving own{nullptr, 0};               // what this rank has for itself
  std::byte* own_to = nullptr;           // and where it belongs; the same place: nothing is to do

  bool moves_own() const { return own.bytes > 0 && own.at != own_to; }
};

}  // namespace ccore
