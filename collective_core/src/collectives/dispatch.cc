// Every collective that has several algorithms, by one of them.
#include "collectives/all_gather/all_gather.h"
#include "collectives/all_reduce/all_reduce.h"
#include "collectives/all_to_all/all_to_all.h"
#include "collectives/broadcast/broadcast.h"
#include "collectives/gather/gather.h"
#include "collectives/reduce/reduce.h"
#include "collectives/reduce_scatter/reduce_scatter.h"
#include "collectives/scatter/scatter.h"
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

void reduce_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
               cc_redop op, int root) {
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

void all_gather_by(Algorithm algorithm, const Context& context, const void* send, void* recv,
                   const std::vector<Block>& blocks) {
  switch (algorithm) {
    case Algorithm::oneshot:
      return all_gather_oneshot(context, send, recv, blocks);
    case Algorithm::cma:
      return all_gather_cma(context, send, recv, blocks);
    case Algorithm::ring:
      return all_gather_ring(context, send, recv, blocks);
    default:
      throw Error(CC_ERROR_INTERNAL, format("all_gather has no algorithm %s", name_of(algorithm)));
  }
}

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

void all_to_all_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t bytes) {
  switch (algorithm) {
    case Algorithm::oneshot:
      return all_to_all_oneshot(context, send, recv, bytes);
    case Algorithm::cma:
      return all_to_all_cma(context, send, recv, bytes);
    case Algorithm::pairwise:
      return all_to_all_pairwise(context, send, recv, bytes);
    default:
      throw Error(CC_ERROR_INTERNAL, format("all_to_all has no algorithm %s", name_of(algorithm)));
  }
}

}  // namespace ccore
