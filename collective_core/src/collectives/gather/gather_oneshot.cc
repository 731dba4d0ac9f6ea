#include "collectives/gather/gather_oneshot.h"

#include "collectives/gather/gather_parts.h"
#include "collectives/slot_exchange.h"

namespace ccore {

void gather_oneshot(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  gather_parts(context, send, recv, bytes, root, [](const auto&... parts) { exchange_by_slots(parts...); });
}

}  // namespace ccore
