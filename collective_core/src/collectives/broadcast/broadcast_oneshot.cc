#include "collectives/broadcast/broadcast_oneshot.h"

#include "collectives/broadcast/broadcast_parts.h"
#include "collectives/slot_exchange.h"

namespace ccore {

void broadcast_oneshot(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  broadcast_parts(context, send, recv, bytes, root, [](const auto&... parts) { exchange_by_slots(parts...); });
}

}  // namespace ccore
