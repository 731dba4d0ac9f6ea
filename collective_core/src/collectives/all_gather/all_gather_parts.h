// Who gives what to whom in all_gather, for the ways in which the ranks of a node reach their data directly.
#pragma once

#include <algorithm>
#include <vector>

#include "collectives/exchange.h"
#include "schedule/schedule.h"

namespace ccore {

// exchange: exchange_by_slots() or exchange_by_kernel().
template <typename Exchange>
auto all_gather_parts(const Context& context, const void* send, void* recv, const std::vector<Block>& blocks,
                      Exchange exchange) {
  ExchangeShape shape;
  shape.alike = true;
  for (const Block& block : blocks) shape.largest = std::max(shape.largest, block.count);
  const auto place_of = [&](int rank) {
    const Block& block = blocks[static_cast<size_t>(rank)];
    return Coming{block.count > 0 ? static_cast<std::byte*>(recv) + block.begin : nullptr, block.count};
  };
  const Coming own = place_of(context.rank);
  shape.own = Leaving{static_cast<const std::byte*>(send), own.bytes};
  shape.own_to = own.at;
  return exchange(context, shape, [&](int) { return shape.own; }, place_of);
}

}  // namespace ccore
