#include "collectives/all_gather/all_gather_cma.h"

#include "collectives/all_gather/all_gather_oneshot.h"
#include "collectives/all_gather/all_gather_parts.h"
#include "collectives/cross_exchange.h"

namespace ccore {

void all_gather_cma(const Context& context, const void* send, void* recv, const std::vector<Block>& blocks) {
  const bool done =
      all_gather_parts(context, send, recv, blocks, [](const auto&... parts) { return exchange_by_kernel(parts...); });
  if (!done) all_gather_oneshot(context, send, recv, blocks);
}

}  // namespace ccore
