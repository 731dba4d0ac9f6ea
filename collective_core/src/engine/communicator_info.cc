// What a communicator says of itself.
#include <algorithm>
#include <cstring>
#include <string>

#include "engine/communicator.h"
#include "engine/settings_text.h"

namespace ccore {

void Communicator::fill(int rank, cc_peer_info* info) const {
  const Peer& peer = connections_.peers[static_cast<size_t>(rank)];
  cc_peer_info full{};
  full.size = std::min(info->size, sizeof full);
  full.rank = rank;
  full.node = peer.place.node;
  full.local_rank = peer.place.local_rank;
  full.local_size = peer.place.local_size;
  full.pid = peer.pid;
  std::strncpy(full.host, peer.host.c_str(), sizeof full.host - 1);
  std::strncpy(full.address, host_text(peer.address).c_str(), sizeof full.address - 1);
  const auto& link = connections_.links[static_cast<size_t>(rank)];
  std::strncpy(full.transport, link ? link->name() : "self", sizeof full.transport - 1);
  if (link) {
    full.payload_bytes_sent = link->payload_bytes_sent;
    full.payload_bytes_received = link->payload_bytes_received;
  }
  std::memcpy(info, &full, full.size);
}

std::string Communicator::settings_text() const {
  return ccore::settings_text(told_settings(rank_, settings_, connections_));
}

std::string Communicator::summary() const {
  int nodes = 0;
  int shm = 0;
  int tcp = 0;
  int rdma = 0;
  for (size_t rank = 0; rank < connections_.peers.size(); ++rank) {
    nodes = std::max(nodes, connections_.peers[rank].place.node + 1);
    const auto& link = connections_.links[rank];
    if (link) ++(link->fd() < 0 ? shm : std::strcmp(link->name(), "rdma") == 0 ? rdma : tcp);
  }
  const std::string& obstacle = connections_.cross_memory_obstacle;
  const std::string by_rdma = rdma == 0 ? "" : format(", rdma to %d by %s", rdma, connections_.rdma.c_str());
  return format("%d ranks on %d nodes, transport shm to %d, tcp to %d%s, cma %s", size(), nodes, shm, tcp,
                by_rdma.c_str(), obstacle.empty() ? "in use" : ("not used: " + obstacle).c_str());
}

}  // namespace ccore
