#include "collectives/broadcast/broadcast_chain.h"

#include "collectives/broadcast/broadcast_schedule.h"
#include "schedule/broadcast.h"

namespace ccore {

void broadcast_chain(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  run_broadcast(context, chain_broadcast(context.rank, context.nranks, root), send, recv, bytes, root);
}

}  // namespace ccore
