// Who gives what to whom in gather, for the ways in which the ranks of a node reach their data directly.
#pragma once

#include "collectives/exchange.h"

namespace ccore {

// exchange: exchange_by_slots() or exchange_by_kernel().
template <typename Exchange>
auto gather_parts(const Context& context, const void* send, void* recv, size_t bytes, int root, Exchange exchange) {
  const bool is_root = context.rank == root;
  auto* output = static_cast<std::byte*>(recv);
  const Leaving part{static_cast<const std::byte*>(send), bytes};
  const auto coming = [=](int rank) { return Coming{output + static_cast<size_t>(rank) * bytes, bytes}; };
  ExchangeShape shape;
  shape.root = root;
  shape.role = is_root ? StreamRole::reads : StreamRole::writes;
  shape.alike = true;
  shape.largest = bytes;
  if (is_root) {
    shape.own = part;
    shape.own_to = coming(root).at;
  }
  return exchange(context, shape, [=](int) { return part; }, coming);
}

}  // namespace ccore
