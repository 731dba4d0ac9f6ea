#include "collectives/reduce_scatter/dispatch.h"

#include "collectives/reduce_scatter/reduce_scatter_cma.h"
#include "collectives/reduce_scatter/reduce_scatter_oneshot.h"
#include "collectives/reduce_scatter/reduce_scatter_ring.h"
#include "common/error.h"

namespace ccore {

void reduce_scatter_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t count,
                       cc_dtype dtype, cc_redop op) {
  switch (algorithm) {
    case Algorithm::oneshot:
      return reduce_scatter_oneshot(context, send, recv, count, dtype, op);
    case Algorithm::cma:
      return reduce_scatter_cma(context, send, recv, count, dtype, op);
    case Algorithm::ring:
      return reduce_scatter_ring(context, send, recv, count, dtype, op);
    default:
      throw Error(CC_ERROR_INTERNAL, format("reduce_scatter has no algorithm %s", name_of(algorithm)));
  }
}

}  // namespace ccore
