#include "collectives/all_gather/all_gather_oneshot.h"

#include "collectives/all_gather/all_gather_parts.h"
#include "collectives/slot_exchange.h"

namespace ccore {

void all_gather_oneshot(const Context& context, const void* send, void* recv, const std::vector<Block>& blocks) {
  all_gather_parts(context, send, recv, blocks, [](const auto&... parts) { exchange_by_slots(parts...); });
}

}  // namespace ccore
