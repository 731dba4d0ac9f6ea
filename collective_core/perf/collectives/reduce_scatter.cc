// reduce_scatter_perf: every rank gets its block of the reduction of all.
#include "collective.h"

namespace ccore_perf {
namespace {

cc_result run(const Call& call) {
  return cc_reduce_scatter(call.send, call.recv, call.count, call.inputs.dtype, call.inputs.op, call.comm, nullptr);
}

size_t wrong(const Call& call) {
  const size_t own = static_cast<size_t>(call.rank) * call.count;
  return count_wrong(call.recv, own, call.count, call.inputs, kReduction);
}

}  // namespace

const Collective kCollective = {
    "reduce_scatter_perf",
    true,  // reduces
    false,  // rooted
    true,  // send_blocks
    false,  // recv_blocks
    true,  // in_place
    false,  // only_powers_of_two
    all_but_own,
    run,
    wrong,
};

}  // namespace ccore_perf
