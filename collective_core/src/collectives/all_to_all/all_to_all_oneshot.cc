#include "collectives/all_to_all/all_to_all_oneshot.h"

#include "collectives/all_to_all/all_to_all_parts.h"
#include "collectives/slot_exchange.h"

namespace ccore {

void all_to_all_oneshot(const Context& context, const void* send, void* recv, size_t bytes) {
  all_to_all_parts(context, send, recv, bytes, [](const auto&... parts) { exchange_by_slots(parts...); });
}

}  // namespace ccore
