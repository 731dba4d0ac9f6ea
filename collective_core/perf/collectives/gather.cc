// gather_perf: the root gets the parts of all.
#include "collective.h"

namespace ccore_perf {
namespace {

cc_result run(const Call& call) {
  return cc_gather(call.send, call.recv, call.count, call.inputs.dtype, call.root, call.comm, nullptr);
}

size_t wrong(const Call& call) { return call.rank == call.root ? wrong_of_all(call) : 0; }

}  // namespace

const Collective kCollective = {
    "gather_perf",
    false,  // reduces
    true,  // rooted
    false,  // send_blocks
    true,  // recv_blocks
    true,  // in_place
    false,  // only_powers_of_two
    all_but_own,   run, wrong,
};

}  // namespace ccore_perf
