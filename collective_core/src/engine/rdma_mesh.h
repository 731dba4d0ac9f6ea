// RDMA between the ranks that share no memory: all of them, or none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/client.h"
#include "topology/pci.h"
#include "transport/link.h"
#include "transport/rdma/device.h"
#include "transport/tcp/connection.h"

namespace ccore {

struct RdmaPlan {
  int rank = 0;
  int local_rank = 0;
  Address own;  // at which others reach this rank
  Surroundings around;  // of this rank
  RdmaWish wish;
  std::vector<std::string> names;  // by rank
};

struct RdmaMesh {
  std::vector<std::unique_ptr<Link>> links;  // by rank; null where no connection is. Empty if RDMA cannot be used.
  std::string obstacle;  // then why, the same on all ranks
  RdmaRails rails;   // that this rank uses; empty: none
  std::string text;  // they in words
};

// data: by rank, the proven connections over which the ends tell each other their queue pairs and keys. Every rank
// calls it. A rank reports RDMA as usable only after bytes have gone both ways over each of its connections.
RdmaMesh connect_rdma(RendezvousClient* client, const RdmaPlan& plan, const std::vector<std::vector<Connection>>& data);

}  // namespace ccore
