#include "collectives/gather/gather_cma.h"

#include "collectives/cross_exchange.h"
#include "collectives/gather/gather_oneshot.h"
#include "collectives/gather/gather_parts.h"

namespace ccore {

void gather_cma(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  const bool done =
      gather_parts(context, send, recv, bytes, root, [](const auto&... parts) { return exchange_by_kernel(parts...); });
  if (!done) gather_oneshot(context, send, recv, bytes, root);
}

}  // namespace ccore
