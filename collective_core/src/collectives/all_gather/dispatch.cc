#include "collectives/all_gather/dispatch.h"

#include "collectives/all_gather/all_gather_cma.h"
#include "collectives/all_gather/all_gather_oneshot.h"
#include "collectives/all_gather/all_gather_ring.h"
#include "common/error.h"

namespace ccore {

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

}  // namespace ccore
