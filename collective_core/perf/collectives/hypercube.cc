// hypercube_perf: the parts of all for every rank, by exchanges of 1, 2, 4, ... blocks between pairs.
#include <cstring>

#include "exchange.h"

namespace ccore_perf {
namespace {

cc_result run(const Call& call) {
  char* own = call.block(call.rank);
  if (own != call.send) std::memcpy(own, call.send, call.count * cc_dtype_size(call.inputs.dtype));
  for (int mask = 1; mask < call.inputs.nranks; mask <<= 1) {
    // This rank holds the blocks of the ranks that differ from it only in bits below the mask.
    const int first = call.rank & ~(mask - 1);
    const int peer = call.rank ^ mask;
    const size_t count = call.count * static_cast<size_t>(mask);
    const Exchange exchange{call.block(first), peer, call.block(first ^ mask), peer, count};
    const cc_result result = run_exchange(exchange, call.inputs.dtype, call.comm);
    if (result != CC_SUCCESS) return result;
  }
  return CC_SUCCESS;
}

}  // namespace

const Collective kCollective = {
    "hypercube_perf",
    false,  // reduces
    false,  // rooted
    false,  // send_blocks
    true,  // recv_blocks
    true,  // in_place
    true,  // only_powers_of_two
    all_but_own,
    run,
    wrong_of_all,
};

}  // namespace ccore_perf
