// sendrecv_perf: every rank sends to the next one while it receives from the one before it.
#include "exchange.h"

namespace ccore_perf {
namespace {

int before(const Call& call) { return (call.rank + call.inputs.nranks - 1) % call.inputs.nranks; }

cc_result run(const Call& call) {
  const int next = (call.rank + 1) % call.inputs.nranks;
  return run_exchange(Exchange{call.send, next, call.recv, before(call), call.count}, call.inputs.dtype, call.comm);
}

size_t wrong(const Call& call) { return count_wrong(call.recv, 0, call.count, call.inputs, before(call)); }

}  // namespace

const Collective kCollective = {
    "sendrecv_perf",
    false,  // reduces
    false,  // rooted
    false,  // send_blocks
    false,  // recv_blocks
    false,  // in_place
    false,  // only_powers_of_two
    everything_once, run, wrong,
};

}  // namespace ccore_perf
