#include "collectives/all_to_all/dispatch.h"

#include "collectives/all_to_all/all_to_all_cma.h"
#include "collectives/all_to_all/all_to_all_oneshot.h"
#include "collectives/all_to_all/all_to_all_pairwise.h"
#include "common/error.h"

namespace ccore {

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
