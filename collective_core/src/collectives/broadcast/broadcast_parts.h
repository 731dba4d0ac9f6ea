// Who gives what to whom in broadcast, for the ways in which the ranks of a node reach their data directly.
#pragma once

#include "collectives/exchange.h"

namespace ccore {

// exchange: exchange_by_slots() or exchange_by_kernel().
template <typename Exchange>
auto broadcast_parts(const Context& context, const void* send, void* recv, size_t bytes, int root, Exchange exchange) {
  const bool is_root = context.rank == root;
  ExchangeShape shape;
  shape.root = root;
  shape.role = is_root ? StreamRole::writes : StreamRole::reads;
  shape.alike = true;
  shape.largest = bytes;
  const Leaving data{static_cast<const std::byte*>(send), bytes};
  shape.own = is_root ? data : Leaving{};
  shape.own_to = static_cast<std::byte*>(recv);
  const Coming copy{shape.own_to, bytes};
  return exchange(context, shape, [&](int) { return data; }, [&](int) { return copy; });
}

}  // namespace ccore
