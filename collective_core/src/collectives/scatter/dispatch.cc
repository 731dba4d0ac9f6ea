#include "collectives/scatter/dispatch.h"

#include "collectives/scatter/scatter_cma.h"
#include "collectives/scatter/scatter_direct.h"
#include "collectives/scatter/scatter_oneshot.h"
#include "common/error.h"

namespace ccore {

void scatter_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t bytes, int root) {
  switch (algorithm) {
    case Algorithm::oneshot:
      return scatter_oneshot(context, send, recv, bytes, root);
    case Algorithm::cma:
      return scatter_cma(context, send, recv, bytes, root);
    case Algorithm::direct:
      return scatter_direct(context, send, recv, bytes, root);
    default:
      throw Error(CC_ERROR_INTERNAL, format("scatter has no algorithm %s", name_of(algorithm)));
  }
}

}  // namespace ccore
