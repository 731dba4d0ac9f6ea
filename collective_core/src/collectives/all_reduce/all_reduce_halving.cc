#include "collectives/all_reduce/all_reduce_halving.h"

#include "collectives/all_reduce/scheduled.h"
#include "schedule/halving.h"

namespace ccore {

void all_reduce_halving(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op) {
  all_reduce_scheduled(context, halving_all_reduce(context.rank, context.nranks), send, recv, count, dtype, op);
}

}  // namespace ccore
