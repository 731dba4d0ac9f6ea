// From a unique id to a connected rank: who is where, which transport to whom, and the links.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective_core/collective_core.h"
#include "collectives/choose.h"
#include "common/unique_fd.h"
#include "rendezvous/unique_id.h"
#include "topology/link_matrix.h"
#include "topology/node.h"
#include "tuner/settings.h"
#include "transport/link.h"
#include "transport/shm/arena.h"
#include "transport/shm/cross_memory.h"
#include "transport/shm/segment.h"
#include "transport/tcp/stream_settings.h"

namespace ccore {

// cc_config with the environment and the defaults filled in.
struct Settings {
  int64_t timeout_ms = 0;
  int64_t init_timeout_ms = 0;
  cc_transport transport = CC_TRANSPORT_AUTO;
  std::string node_id;
  std::string interface_name;
  std::string address;
  Overrides overrides;
  std::string link_matrix_path;       // empty: none
  std::optional<LinkMatrix> link_matrix;  // of a part of a communicator: instead of the file
  TunerSettings tuner;
  StreamWish streams;
  int64_t fault_seed = 0;  // 0: no faults are injected
  int64_t ring_bytes = 0;  // of shared memory, per pair and direction
  int64_t slot_bytes = 0;  // of shared memory, per rank; 0: no arena
  bool cross_memory = true;  // whether this rank lets the kernel copy between the ranks' memory
  std::vector<std::string> given;  // what cc_config says, by the names of the variables that it beats
  int ranks_on_host = 1;  // at least so many share the cores: a part of a communicator is not alone
};
// base: what a zero or null field means; null: the environment, else the default.
Settings settings_from(const cc_config* config, const Settings* base = nullptr);

struct Peer {
  std::string host;
  int64_t pid = 0;
  Address address;
  Place place;
  std::string name;  // "rank 2 (host gpu01, pid 4711)"
};

struct Connections {
  std::vector<Peer> peers;                   // by rank
  std::optional<Segment> segment;            // declared before the links, which live in it
  std::unique_ptr<Arena> arena;              // of the segment; null if that has none
  std::unique_ptr<CrossMemory> cross_memory;  // null if it may not be used
  std::string cross_memory_obstacle;          // then why
  std::vector<std::unique_ptr<Link>> links;  // by rank, empty at the own place
  std::vector<UniqueFd> control;             // by rank, empty at the own place
  int ranks_on_host = 1;
  Overrides overrides;  // of rank 0
  std::optional<LinkMatrix> link_matrix;  // of rank 0
  TunerSettings tuner;  // of rank 0
  StreamWish streams;   // of rank 0
};

Connections connect_ranks(const UniqueId& id, int rank, int nranks, const Settings& settings);

}  // namespace ccore
