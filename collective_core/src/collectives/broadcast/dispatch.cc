#include "collectives/broadcast/dispatch.h"

#include "collectives/broadcast/broadcast_chain.h"
#include "collectives/broadcast/broadcast_cma.h"
#include "collectives/broadcast/broadcast_oneshot.h"
#include "collectives/broadcast/broadcast_tree.h"
#include "common/error.h"

namespace ccore {

void broadcast_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t bytes, int root) {
  switch (algorithm) {
    case Algorithm::oneshot:
      return broadcast_oneshot(context, send, recv, bytes, root);
    case Algorithm::cma:
      return broadcast_cma(context, send, recv, bytes, root);
    case Algorithm::tree:
      return broadcast_tree(context, send, recv, bytes, root);
    case Algorithm::chain:
      return broadcast_chain(context, send, recv, bytes, root);
    default:
      throw Error(CC_ERROR_INTERNAL, format("broadcast has no algorithm %s", name_of(algorithm)));
  }
}

}  // namespace ccore
