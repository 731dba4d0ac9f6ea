// What a communicator is to be like: cc_config, the environment and the defaults, in this order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collective_core/collective_core.h"
#include "collectives/choose.h"
#include "topology/link_matrix.h"
#include "transport/rdma/device.h"
#include "transport/tcp/stream_settings.h"
#include "tuner/settings.h"

namespace ccore {

// What goes between nodes: TCP; RDMA, or an error; RDMA where it has moved bytes between all ranks, else TCP.
enum class Net : int32_t { tcp = 0, rdma = 1, best = 2 };

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
  Net net = Net::tcp;
  RdmaWish rdma;
  int64_t fault_seed = 0;  // 0: no faults are injected
  int64_t ring_bytes = 0;  // of shared memory, per pair and direction
  int64_t slot_bytes = 0;  // of shared memory, per rank; 0: no arena
  bool cross_memory = true;  // whether this rank lets the kernel copy between the ranks' memory
  std::vector<std::string> given;  // what cc_config says, by the names of the variables that it beats
  int ranks_on_host = 1;  // at least so many share the cores: a part of a communicator is not alone
  int cores_on_host = 1;  // that these may use together
  bool roomy = true;      // of a part of a communicator: whether every rank of the whole has a core of its own
};
// base: what a zero or null field means; null: the environment, else the default.
Settings settings_from(const cc_config* config, const Settings* base = nullptr);

}  // namespace ccore
