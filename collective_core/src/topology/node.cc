#include "topology/node.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>

namespace ccore {

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string node_key(const std::string& override_id, const std::string& host, const std::string& boot) {
  return override_id.empty() ? host + "/" + boot : "=" + override_id;
}

std::string emulated_node_key(const std::string& key, int rank, int intra_size) {
  return intra_size > 0 ? key + "#" + std::to_string(rank / intra_size) : key;
}

std::vector<Place> places_of(const std::vector<std::string>& keys) {
  struct Node {
    int index;
    int leader;
    int size;
  };
  std::map<std::string, Node> nodes;
  std::vector<Place> places(keys.size());
  for (size_t rank = 0; rank < keys.size(); ++rank) {
    const auto next = static_cast<int>(nodes.size());
    Node& node = nodes.emplace(keys[rank], Node{next, static_cast<int>(rank), 0}).first->second;
    places[rank] = Place{node.index, node.size++, 0, node.leader};
  }
  for (size_t rank = 0; rank < keys.size(); ++rank) places[rank].local_size = nodes.at(keys[rank]).size;
  return places;
}

NodeOrder::NodeOrder(const std::vector<Place>& places) : rank_at_(places.size()), place_of_(places.size()) {
  std::iota(rank_at_.begin(), rank_at_.end(), 0);
  std::stable_sort(rank_at_.begin(), rank_at_.end(), [&](int one, int other) {
    return places[static_cast<size_t>(one)].node < places[static_cast<size_t>(other)].node;
  });
  for (size_t place = 0; place < rank_at_.size(); ++place) {
    place_of_[static_cast<size_t>(rank_at_[place])] = static_cast<int>(place);
  }
  is_that_of_ranks_ = std::is_sorted(rank_at_.begin(), rank_at_.end());
}

}  // namespace ccore
