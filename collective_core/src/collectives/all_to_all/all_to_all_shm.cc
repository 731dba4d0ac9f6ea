#include "collectives/all_to_all/all_to_all.h"

#include "collectives/shm/cross_exchange.h"
#include "collectives/shm/exchange.h"
#include "collectives/shm/slot_exchange.h"

namespace ccore {
namespace {

// Who gives what to whom. exchange: exchange_by_slots() or exchange_by_kernel().
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

}  // namespace

void all_to_all_oneshot(const Context& context, const void* send, void* recv, size_t bytes) {
  all_to_all_parts(context, send, recv, bytes, [](const auto&... parts) { exchange_by_slots(parts...); });
}

void all_to_all_cma(const Context& context, const void* send, void* recv, size_t bytes) {
  const bool done =
      all_to_all_parts(context, send, recv, bytes, [](const auto&... parts) { return exchange_by_kernel(parts...); });
  if (!done) all_to_all_oneshot(context, send, recv, bytes);
}

}  // namespace ccore
