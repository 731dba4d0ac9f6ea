// all_reduce_perf: every rank gets the reduction of all.
#include "collective.h"

namespace ccore_perf {
namespace {

double both_ways(double nranks) { return 2 * (nranks - 1) / nranks; }

cc_result run(const Call& call) {
  return cc_all_reduce(call.send, call.recv, call.count, call.inputs.dtype, call.inputs.op, call.comm, nullptr);
}

size_t wrong(const Call& call) { return count_wrong(call.recv, 0, call.count, call.inputs, kReduction); }

}  // namespace

const Collective kCollective = {
    "all_reduce_perf",
    true,  // reduces
    false,  // rooted
    false,  // send_blocks
    false,  // recv_blocks
    true,  // in_place
    false,  // only_powers_of_two
    both_ways,
    run,
    wrong,
};

}  // namespace ccore_perf
