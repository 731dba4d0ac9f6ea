#include "collectives/all_to_all/all_to_all_cma.h"

#include "collectives/all_to_all/all_to_all_oneshot.h"
#include "collectives/all_to_all/all_to_all_parts.h"
#include "collectives/cross_exchange.h"

namespace ccore {

void all_to_all_cma(const Context& context, const void* send, void* recv, size_t bytes) {
  const bool done =
      all_to_all_parts(context, send, recv, bytes, [](const auto&... parts) { return exchange_by_kernel(parts...); });
  if (!done) all_to_all_oneshot(context, send, recv, bytes);
}

}  // namespace ccore
