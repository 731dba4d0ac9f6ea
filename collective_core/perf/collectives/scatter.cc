// scatter_perf: every rank gets its block of what the root has.
#include "collective.h"

namespace ccore_perf {
namespace {

cc_result run(const Call& call) {
  return cc_scatter(call.send, call.recv, call.count, call.inputs.dtype, call.root, call.comm, nullptr);
}

size_t wrong(const Call& call) {
  const size_t own = static_cast<size_t>(call.rank) * call.count;
  return count_wrong(call.recv, own, call.count, call.inputs, call.root);
}

}  // namespace

const Collective kCollective = {
    "scatter_perf",
    false,  // reduces
    true,  // rooted
    true,  // send_blocks
    false,  // recv_blocks
    true,  // in_place
    false,  // only_powers_of_two
    all_but_own,    run, wrong,
};

}  // namespace ccore_perf
