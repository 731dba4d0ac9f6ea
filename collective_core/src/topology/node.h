// What makes two ranks neighbours on one node.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ccore {

std::string host_name();
// Differs between machines and between boots; the same in all containers of a machine.
std::string boot_id();

// The default node id: two containers of one machine share the boot id but not the host name.
std::string node_key(const std::string& override_id, const std::string& host, const std::string& boot);

// Cuts the ranks of a node into nodes of intra_size consecutive ranks, for tests on one machine; 0: no cut.
std::string emulated_node_key(const std::string& key, int rank, int intra_size);

struct Place {
  int node = 0;        // numbered in the order of the lowest rank
  int local_rank = 0;  // in the order of ranks
  int local_size = 0;
  int leader = 0;  // the lowest rank of the node
};

// The order in which rings, chains and trees take the ranks: node by node, however a launcher has numbered them, so that
// neighbours in a ring are of one node where they can be.
class NodeOrder {
 public:
  explicit NodeOrder(const std::vector<Place>& places);
  bool is_that_of_ranks() const { return is_that_of_ranks_; }
  int place_of(int rank) const { return place_of_[static_cast<size_t>(rank)]; }
  int rank_at(int place) const { return rank_at_[static_cast<size_t>(place)]; }

 private:
  std::vector<int> rank_at_, place_of_;
  bool is_that_of_ranks_;
};

// The place of each rank, from the node key of each rank. Ranks of a node need not be neighbours in number.
std::vector<Place> places_of(const std::vector<std::string>& keys);

}  // namespace ccore
