#include "collectives/all_reduce/dispatch.h"

#include "collectives/all_reduce/all_reduce_2d.h"
#include "collectives/all_reduce/all_reduce_cma.h"
#include "collectives/all_reduce/all_reduce_direct.h"
#include "collectives/all_reduce/all_reduce_double_tree.h"
#include "collectives/all_reduce/all_reduce_doubling.h"
#include "collectives/all_reduce/all_reduce_halving.h"
#include "collectives/all_reduce/all_reduce_n_trees.h"
#include "collectives/all_reduce/all_reduce_oneshot.h"
#include "collectives/all_reduce/all_reduce_ring.h"
#include "collectives/all_reduce/all_reduce_twoshot.h"
#include "common/error.h"

namespace ccore {

void all_reduce_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t count,
                   cc_dtype dtype, cc_redop op) {
  switch (algorithm) {
    case Algorithm::doubling:
      return all_reduce_doubling(context, send, recv, count, dtype, op);
    case Algorithm::oneshot:
      return all_reduce_oneshot(context, send, recv, count, dtype, op);
    case Algorithm::twoshot:
      return all_reduce_twoshot(context, send, recv, count, dtype, op);
    case Algorithm::ring:
      return all_reduce_ring(context, send, recv, count, dtype, op);
    case Algorithm::hierarchical:
      return all_reduce_2d(context, send, recv, count, dtype, op);
    case Algorithm::halving:
      return all_reduce_halving(context, send, recv, count, dtype, op);
    case Algorithm::direct:
      return all_reduce_direct(context, send, recv, count, dtype, op);
    case Algorithm::double_tree:
      return all_reduce_double_tree(context, send, recv, count, dtype, op);
    case Algorithm::n_trees:
      return all_reduce_n_trees(context, send, recv, count, dtype, op);
    case Algorithm::cma:
      return all_reduce_cma(context, send, recv, count, dtype, op);
    default:
      throw Error(CC_ERROR_INTERNAL, format("all_reduce has no algorithm %s", name_of(algorithm)));
  }
}

}  // namespace ccore
