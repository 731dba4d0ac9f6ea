#include "collectives/reduce/dispatch.h"

#include "collectives/reduce/reduce_chain.h"
#include "collectives/reduce/reduce_cma.h"
#include "collectives/reduce/reduce_oneshot.h"
#include "collectives/reduce/reduce_tree.h"
#include "collectives/reduce/reduce_twoshot.h"
#include "common/error.h"

namespace ccore {

void reduce_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t count,
               cc_dtype dtype, cc_redop op, int root) {
  switch (algorithm) {
    case Algorithm::oneshot:
      return reduce_oneshot(context, send, recv, count, dtype, op, root);
    case Algorithm::twoshot:
      return reduce_twoshot(context, send, recv, count, dtype, op, root);
    case Algorithm::cma:
      return reduce_cma(context, send, recv, count, dtype, op, root);
    case Algorithm::tree:
      return reduce_tree(context, send, recv, count, dtype, op, root);
    case Algorithm::chain:
      return reduce_chain(context, send, recv, count, dtype, op, root);
    default:
      throw Error(CC_ERROR_INTERNAL, format("reduce has no algorithm %s", name_of(algorithm)));
  }
}

}  // namespace ccore
