// alltoallv_perf: alltoall_perf by the call that takes a size for every pair. The sizes are equal here, so that the
// figures of the two can be compared.
#include <vector>

#include "collective.h"

namespace ccore_perf {
namespace {

cc_result run(const Call& call) {
  const auto nranks = static_cast<size_t>(call.inputs.nranks);
  const std::vector<size_t> counts(nranks, call.count);
  std::vector<size_t> offsets(nranks);
  for (size_t rank = 0; rank < nranks; ++rank) offsets[rank] = rank * call.count;
  return cc_all_to_allv(call.send, counts.data(), offsets.data(), call.recv, counts.data(), offsets.data(),
                        call.inputs.dtype, call.comm, nullptr);
}

}  // namespace

const Collective kCollective = {
    "alltoallv_perf",
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
