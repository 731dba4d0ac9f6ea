// Where the ranks of a communicator are, and the two communicators that a rank is in besides: its node, and its rail.
#pragma once

#include <cstddef>

#include "collective_core/collective_core.h"

namespace ccore_cuda::nodes {

// The part of `count` elements that belongs to one of `parts` owners; as block_of() of the library for the host.
struct Part {
  size_t begin;
  size_t count;
};
Part part_of(size_t count, int parts, int owner);

class Places {
 public:
  // Collective: splits the communicator.
  explicit Places(cc_comm* comm);
  ~Places();
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  int ranks() const { return ranks_; }
  int nodes() const { return nodes_; }
  int node() const { return node_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  // As many as the smallest node has ranks: the first ranks of each node own a part each.
  int owners() const { return owners_; }
  bool is_owner() const { return local_rank_ < owners_; }

  cc_comm* whole() const { return whole_; }
  cc_comm* local() const { return local_; }  // null: this rank is alone on its node
  cc_comm* rail() const { return rail_; }    // the owners of the same part, by node; null: not an owner
  // Ends what the others wait for, with an error.
  void abort() const;

 private:
  cc_comm* whole_;
  cc_comm* local_ = nullptr;
  cc_comm* rail_ = nullptr;
  int ranks_ = 1;
  int nodes_ = 1;
  int node_ = 0;
  int local_rank_ = 0;
  int local_size_ = 1;
  int owners_ = 1;
};

// Throws the error of a call of the library for the host.
void require_success(cc_result result);

}  // namespace ccore_cuda::nodes
