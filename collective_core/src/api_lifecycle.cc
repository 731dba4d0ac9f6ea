// The C ABI of a communicator's life: made, made of another, ended.
#include <memory>
#include <string>

#include "api_support.h"
#include "engine/split.h"

extern "C" {

cc_result cc_comm_init_rank(cc_comm** comm, int nranks, const cc_unique_id* id, int rank,
                            const cc_config* config) {
  if (comm) *comm = nullptr;
  return ccore::guarded([&] {
    ccore::require(comm && id, "an argument is null");
    ccore::require(nranks >= 1, "nranks must be at least 1");
    ccore::require(rank >= 0 && rank < nranks, "rank must be from 0 to nranks - 1");
    *comm = new cc_comm{ccore::Communicator(ccore::decode(*id), rank, nranks, ccore::settings_from(config))};
  });
}

cc_result cc_comm_destroy(cc_comm* comm) {
  return ccore::guarded([&] { delete comm; });
}

cc_result cc_comm_abort(cc_comm* comm) {
  return ccore::guarded([&] {
    ccore::require(comm != nullptr, "comm is null");
    comm->communicator.abort("cc_comm_abort was called on rank " + std::to_string(comm->communicator.rank()));
  });
}

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
