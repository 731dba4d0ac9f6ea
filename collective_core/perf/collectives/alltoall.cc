// alltoall_perf: every rank gives each rank another block.
#include "collective.h"

namespace ccore_perf {
namespace {

cc_result run(const Call& call) {
  return cc_all_to_all(call.send, call.recv, call.count, call.inputs.dtype, call.comm, nullptr);
}

size_t wrong(const Call& call) {
  const size_t own = static_cast<size_t>(call.rank) * call.count;
  size_t wrong = 0;
  for (int rank = 0; rank < call.inputs.nranks; ++rank) {
    wrong += count_wrong(call.block(rank), own, call.count, call.inputs, rank);
  }
  return wrong;
}

}  // namespace

const Collective kCollective = {
    "alltoall_perf",
    false,  // reduces
    false,  // rooted
    true,  // send_blocks
    true,  // recv_blocks
    false,  // in_place
    false,  // only_powers_of_two
    all_but_own,
    run,
    wrong,
};

}  // namespace ccore_perf
