// The C ABI: communicators that come from others, and their end in order.
#include <memory>

#include "api_support.h"
#include "engine/split.h"

extern "C" {

cc_result cc_comm_split(cc_comm* comm, int color, int key, const cc_config* config, cc_comm** part) {
  if (part) *part = nullptr;
  return ccore::guarded([&] {
    ccore::require(comm && part, "an argument is null");
    ccore::require(color >= 0 || color == CC_SPLIT_NOCOLOR, "color is negative and not CC_SPLIT_NOCOLOR");
    const auto seat = ccore::split(&comm->communicator, ccore::SplitWish{color, key}, config);
    if (seat) *part = new cc_comm{ccore::Communicator(seat->id, seat->rank, seat->nranks, seat->settings)};
  });
}

cc_result cc_comm_finalize(cc_comm* comm, const cc_op_options* options) {
  return ccore::guarded([&] {
    ccore::require(comm != nullptr, "comm is null");
    comm->communicator.finalize(ccore::timeout_of(options));
  });
}

}  // extern "C"
