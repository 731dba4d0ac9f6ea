// From a unique id to a connected rank: who is where, which transport to whom, and the links.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/choose.h"
#include "engine/cards.h"
#include "engine/settings.h"
#include "rendezvous/unique_id.h"
#include "topology/link_matrix.h"
#include "topology/node.h"
#include "transport/link.h"
#include "transport/shm/arena.h"
#include "transport/shm/cross_memory.h"
#include "transport/shm/segment.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/stream_settings.h"
#include "tuner/settings.h"

namespace ccore {

struct Connections {
  std::vector<Peer> peers;                   // by rank
  std::optional<Segment> segment;            // declared before the links, which live in it
  std::unique_ptr<Arena> arena;              // of the segment; null if that has none
  std::unique_ptr<CrossMemory> cross_memory;  // null if it may not be used
  std::string cross_memory_obstacle;          // then why
  std::vector<std::unique_ptr<Link>> links;  // by rank, empty at the own place
  std::vector<Connection> control;             // by rank, empty at the own place
  int ranks_on_host = 1;
  int cores_on_host = 1;  // that these may use together
  bool roomy = false;  // on every host, each rank has a core of its own; the same on all ranks
  Overrides overrides;  // of rank 0
  std::optional<LinkMatrix> link_matrix;  // of rank 0
  TunerSettings tuner;  // of rank 0
  StreamWish streams;   // of rank 0
  Net net = Net::tcp;   // of rank 0
  RdmaRails rdma_rails;  // empty: none
  std::string rdma;     // the devices that this rank uses, in words; empty: none
  std::string rdma_obstacle;  // why RDMA was wished for and is not used
};

Connections connect_ranks(const UniqueId& id, int rank, int nranks, const Settings& settings);

}  // namespace ccore
