#include "collectives/scatter/scatter_oneshot.h"

#include "collectives/scatter/scatter_parts.h"
#include "collectives/slot_exchange.h"

namespace ccore {

void scatter_oneshot(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  scatter_parts(context, send, recv, bytes, root, [](const auto&... parts) { exchange_by_slots(parts...); });
}

}  // namespace ccore
