#include "nodes/places.h"

#include <algorithm>
#include <string>

#include "error.h"

namespace ccore_cuda::nodes {

void require_success(cc_result result) {
  if (result != CC_SUCCESS) throw Error(result, cc_last_error(nullptr));
}

Part part_of(size_t count, int parts, int owner) {
  const auto all = static_cast<size_t>(parts), self = static_cast<size_t>(owner);
  const size_t small = count / all, larger = count % all;
  return Part{self * small + std::min(self, larger), small + (self < larger ? 1 : 0)};
}

Places::Places(cc_comm* comm) : whole_(comm) {
  int self = 0;
  require_success(cc_comm_rank(comm, &self));
  require_success(cc_comm_size(comm, &ranks_));
  owners_ = ranks_;
  for (int rank = 0; rank < ranks_; ++rank) {
    cc_peer_info info{};
    info.size = sizeof info;
    require_success(cc_comm_peer_info(comm, rank, &info));
    nodes_ = std::max(nodes_, info.node + 1);
    owners_ = std::min(owners_, info.local_size);
    if (rank != self) continue;
    node_ = info.node;
    local_rank_ = info.local_rank;
    local_size_ = info.local_size;
  }
  // Nodes that are parts of one machine stay apart, whatever cuts the machine: by their name in both parts.
  const std::string name = "node " + std::to_string(node_);
  cc_config config{};
  config.size = sizeof config;
  config.node_id = name.c_str();
  require_success(cc_comm_split(comm, local_size_ > 1 ? node_ : CC_SPLIT_NOCOLOR, local_rank_, &config, &local_));
  require_success(cc_comm_split(comm, is_owner() ? local_rank_ : CC_SPLIT_NOCOLOR, node_, &config, &rail_));
}

Places::~Places() {
  cc_comm_destroy(rail_);
  cc_comm_destroy(local_);
}

void Places::abort() const {
  if (rail_) cc_comm_abort(rail_);
  if (local_) cc_comm_abort(local_);
}

}  // namespace ccore_cuda::nodes
