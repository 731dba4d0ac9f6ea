#include "collectives/broadcast/broadcast.h"

#include "collectives/shm/cross_exchange.h"
#include "collectives/shm/exchange.h"
#include "collectives/shm/slot_exchange.h"

namespace ccore {
namespace {

// Who gives what to whom. exchange: exchange_by_slots() or exchange_by_kernel().
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

}  // namespace

void broadcast_oneshot(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  broadcast_parts(context, send, recv, bytes, root, [](const auto&... parts) { exchange_by_slots(parts...); });
}

void broadcast_cma(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  const bool done = broadcast_parts(context, send, recv, bytes, root,
                                    [](const auto&... parts) { return exchange_by_kernel(parts...); });
  if (!done) broadcast_oneshot(context, send, recv, bytes, root);
}

}  // namespace ccore
