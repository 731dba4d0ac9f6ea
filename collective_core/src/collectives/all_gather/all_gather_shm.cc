#include "collectives/all_gather/all_gather.h"

#include <algorithm>
#include <vector>

#include "collectives/shm/cross_exchange.h"
#include "collectives/shm/exchange.h"
#include "collectives/shm/slot_exchange.h"
#include "schedule/schedule.h"

namespace ccore {
namespace {

// Who gives what to whom. exchange: exchange_by_slots() or exchange_by_kernel().
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

}  // namespace

void all_gather_oneshot(const Context& context, const void* send, void* recv, const std::vector<Block>& blocks) {
  all_gather_parts(context, send, recv, blocks, [](const auto&... parts) { exchange_by_slots(parts...); });
}

void all_gather_cma(const Context& context, const void* send, void* recv, const std::vector<Block>& blocks) {
  const bool done =
      all_gather_parts(context, send, recv, blocks, [](const auto&... parts) { return exchange_by_kernel(parts...); });
  if (!done) all_gather_oneshot(context, send, recv, blocks);
}

}  // namespace ccore
