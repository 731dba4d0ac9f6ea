// A value of every rank to all, inside an operation.
#pragma once

#include <vector>

#include "collectives/all_gather/all_gather.h"

namespace ccore {

// By rank. T travels as bytes.
template <typename T>
std::vector<T> gather_all(const Context& context, const T& mine) {
  std::vector<T> all(static_cast<size_t>(context.nranks));
  std::vector<Block> blocks;
  for (size_t rank = 0; rank < all.size(); ++rank) blocks.push_back(Block{rank * sizeof(T), sizeof(T)});
  all_gather_ring(context, &mine, all.data(), blocks);
  return all;
}

}  // namespace ccore
