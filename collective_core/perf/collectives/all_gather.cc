// all_gather_perf: every rank gets the parts of all.
#include "collective.h"

namespace ccore_perf {
namespace {

cc_result run(const Call& call) {
  return cc_all_gather(call.send, call.recv, call.count, call.inputs.dtype, call.comm, nullptr);
}

}  // namespace

const Collective kCollective = {
    "all_gather_perf",
    false,  // reduces
    false,  // rooted
    false,  // send_blocks
    true,  // recv_blocks
    true,  // in_place
    false,  // only_powers_of_two
    all_but_own,
    run,
    wrong_of_all,
};

}  // namespace ccore_perf
