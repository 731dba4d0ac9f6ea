// reduce_perf: the root gets the reduction of all.
#include "collective.h"

namespace ccore_perf {
namespace {

cc_result run(const Call& call) {
  return cc_reduce(call.send, call.recv, call.count, call.inputs.dtype, call.inputs.op, call.root, call.comm, nullptr);
}

size_t wrong(const Call& call) {
  return call.rank == call.root ? count_wrong(call.recv, 0, call.count, call.inputs, kReduction) : 0;
}

}  // namespace

const Collective kCollective = {
    "reduce_perf",
    true,  // reduces
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
