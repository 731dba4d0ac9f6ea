// broadcast_perf: every rank gets what the root has.
#include "collective.h"

namespace ccore_perf {
namespace {

cc_result run(const Call& call) {
  return cc_broadcast(call.send, call.recv, call.count, call.inputs.dtype, call.root, call.comm, nullptr);
}

size_t wrong(const Call& call) { return count_wrong(call.recv, 0, call.count, call.inputs, call.root); }

}  // namespace

const Collective kCollective = {
    "broadcast_perf",
    false,  // reduces
    true,  // rooted
    false,  // send_blocks
    false,  // recv_blocks
    true,  // in_place
    false,  // only_powers_of_two
    everything_once,
    run,
    wrong,
};

}  // namespace ccore_perf
