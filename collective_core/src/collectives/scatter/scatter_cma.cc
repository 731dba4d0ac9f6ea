#include "collectives/scatter/scatter_cma.h"

#include "collectives/cross_exchange.h"
#include "collectives/scatter/scatter_oneshot.h"
#include "collectives/scatter/scatter_parts.h"

namespace ccore {

void scatter_cma(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  const bool done =
      scatter_parts(context, send, recv, bytes, root, [](const auto&... parts) { return exchange_by_kernel(parts...); });
  if (!done) scatter_oneshot(context, send, recv, bytes, root);
}

}  // namespace ccore
