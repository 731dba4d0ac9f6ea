#include "collectives/all_reduce/all_reduce_direct.h"

#include "collectives/all_reduce/scheduled.h"
#include "schedule/direct.h"

namespace ccore {

void all_reduce_direct(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                       cc_redop op) {
  all_reduce_scheduled(context, direct_all_reduce(context.rank, context.nranks), send, recv, count, dtype, op);
}

}  // namespace ccore
