// alltoall_perf: every rank gives each rank another block.
#include "collective.h"

namespace ccore_perf {
namespace {

cc_result run(const Call& call) {
  return cc_all_to_all(call.send, call.recv, call.count, call.inputs.dtype, call.comm, nullptr);
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
    wrong_of_every_pair,
};

}  // namespace ccore_perf
