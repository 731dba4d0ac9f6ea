#include "collectives/scatter/scatter.h"

#include "collectives/shm/cross_exchange.h"
#include "collectives/shm/exchange.h"
#include "collectives/shm/slot_exchange.h"

namespace ccore {
namespace {

// Who gives what to whom. exchange: exchange_by_slots() or exchange_by_kernel().
template <typename Exchange>
auto scatter_parts(const Context& context, const void* send, void* recv, size_t bytes, int root, Exchange exchange) {
  const bool is_root = context.rank == root;
  const auto* input = static_cast<const std::byte*>(send);
  const auto leaving = [=](int rank) { return Leaving{input + static_cast<size_t>(rank) * bytes, bytes}; };
  const Coming part{static_cast<std::byte*>(recv), bytes};
  ExchangeShape shape;
  shape.root = root;
  shape.role = is_root ? StreamRole::writes : StreamRole::reads;
  shape.largest = bytes;
  if (is_root) {
    shape.own = leaving(root);
    shape.own_to = part.at;
  }
  return exchange(context, shape, leaving, [=](int) { return part; });
}

}  // namespace

void scatter_oneshot(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  scatter_parts(context, send, recv, bytes, root, [](const auto&... parts) { exchange_by_slots(parts...); });
}

void scatter_cma(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  const bool done = scatter_parts(context, send, recv, bytes, root,
                                  [](const auto&... parts) { return exchange_by_kernel(parts...); });
  if (!done) scatter_oneshot(context, send, recv, bytes, root);
}

}  // namespace ccore
