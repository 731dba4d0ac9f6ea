#include "collectives/broadcast/broadcast_tree.h"

#include "collectives/broadcast/broadcast_schedule.h"
#include "schedule/broadcast.h"

namespace ccore {

void broadcast_tree(const Context& context, const void* send, void* recv, size_t bytes, int root) {
  run_broadcast(context, tree_broadcast(context.rank, context.nranks, root), send, recv, bytes, root);
}

}  // namespace ccore
