// Who gives what to whom in all_to_all, for the ways in which the ranks of a node reach their data directly.
#pragma once

#include "collectives/exchange.h"

namespace ccore {

// exchange: exchange_by_slots() or exchange_by_kernel().
template <typename Exchange>
auto all_to_all_parts(const Context& context, const void* send, void* recv, size_t bytes, Exchange exchange) {
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
  const auto leaving = [=](int rank) { return Leaving{input + static_cast<size_t>(rank) * bytes, bytes}; };
  const auto coming = [=](int rank) { return Coming{output + static_cast<size_t>(rank) * bytes, bytes}; };
  ExchangeShape shape;
  shape.largest = bytes;
  shape.own = leaving(context.rank);
  shape.own_to = coming(context.rank).at;
  return exchange(context, shape, leaving, coming);
}

}  // namespace ccore
