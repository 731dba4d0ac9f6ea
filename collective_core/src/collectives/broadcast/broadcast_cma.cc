#include "collectives/broadcast/broadcast_cma.h"

#include "collectives/broadcast/broadcast_oneshot.h"
#include "collectives/broadcast/broadcast_parts.h"
#include "collectives/cross_exchange.h"

namespace ccore {

void broadcast_cma(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  const bool done =
      broadcast_parts(context, send, recv, bytes, root, [](const auto&... parts) { return exchange_by_kernel(parts...); });
  if (!done) broadcast_oneshot(context, send, recv, bytes, root);
}

}  // namespace ccore
