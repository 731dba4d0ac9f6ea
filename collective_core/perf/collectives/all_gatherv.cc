// all_gatherv_perf: all_gather_perf by the call that takes a size for every rank. The sizes are equal here, so that
// the figures of the two can be compared.
#include <vector>

#include "collective.h"

namespace ccore_perf {
namespace {

cc_result run(const Call& call) {
  const auto nranks = static_cast<size_t>(call.inputs.nranks);
  const std::vector<size_t> counts(nranks, call.count);
  std::vector<size_t> offsets(nranks);
  for (size_t rank = 0; rank < nranks; ++rank) offsets[rank] = rank * call.count;
  return cc_all_gatherv(call.send, call.recv, counts.data(), offsets.data(), call.inputs.dtype, call.comm, nullptr);
}

}  // namespace

const Collective kCollective = {
    "all_gatherv_perf",
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
