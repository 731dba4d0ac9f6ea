#include "collectives/gather/dispatch.h"

#include "collectives/gather/gather_cma.h"
#include "collectives/gather/gather_direct.h"
#include "collectives/gather/gather_oneshot.h"
#include "common/error.h"

namespace ccore {

void gather_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t bytes, int root) {
  switch (algorithm) {
    case Algorithm::oneshot:
      return gather_oneshot(context, send, recv, bytes, root);
    case Algorithm::cma:
      return gather_cma(context, send, recv, bytes, root);
    case Algorithm::direct:
      return gather_direct(context, send, recv, bytes, root);
    default:
      throw Error(CC_ERROR_INTERNAL, format("gather has no algorithm %s", name_of(algorithm)));
  }
}

}  // namespace ccore
