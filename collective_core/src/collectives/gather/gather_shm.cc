#include "collectives/gather/gather.h"

#include "collectives/shm/cross_exchange.h"
#include "collectives/shm/exchange.h"
#include "collectives/shm/slot_exchange.h"

namespace ccore {
namespace {

// Who gives what to whom. exchange: exchange_by_slots() or exchange_by_kernel().
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

}  // namespace

void gather_oneshot(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  gather_parts(context, send, recv, bytes, root, [](const auto&... parts) { exchange_by_slots(parts...); });
}

void gather_cma(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  const bool done =
      gather_parts(context, send, recv, bytes, root, [](const auto&... parts) { return exchange_by_kernel(parts...); });
  if (!done) gather_oneshot(context, send, recv, bytes, root);
}

}  // namespace ccore
