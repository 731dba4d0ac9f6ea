// What a communicator says of itself.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>

#include "common/error.h"
#include "engine/communicator.h"

namespace ccore {
namespace {

// From how many bytes on the GPUs inside nodes take part in an all_reduce: by their cc_cuda_path, the least of all first.
// On the path of streams an operation waits for time slices of the GPU, 0.4 ms, as long as all of it takes on the CPUs at
// 256 KiB. benchmarks/gpu_torch_nodes.py measures these sizes; where the data crosses the bus twice they were not measured.
constexpr int64_t kLeastDeviceBytes[] = {256 << 10, 4 << 20, 256 << 10, INT64_MAX};

}  // namespace

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

ToldSettings Communicator::told_settings() const { return ccore::told_settings(rank_, settings_, connections_); }

void Communicator::fill(cc_limits* limits) const {
  const Overrides& overrides = connections_.overrides;
  const Algorithm forced = overrides.forced[static_cast<size_t>(Kind::all_reduce)];
  const bool never = overrides.hierarchical == 0 || (forced != Algorithm::none && forced != Algorithm::hierarchical);
  cc_limits full{};
  full.size = std::min(limits->size, sizeof full);
  full.timeout_ms = settings_.timeout_ms;
  full.least_2d_bytes = never ? 1 : overrides.hierarchical_threshold;
  full.most_2d_bytes = never ? 0 : overrides.hierarchical_limit;
  for (size_t path = 0; path < std::size(kLeastDeviceBytes); ++path) {
    const bool two_levels = chooser_.shape.nodes > 1 && chooser_.shape.most_local > 1 && !never;
    full.least_device_2d_bytes[path] = two_levels ? std::max(kLeastDeviceBytes[path], full.least_2d_bytes) : INT64_MAX;
  }
  std::memcpy(limits, &full, full.size);
}

std::string Communicator::transports() const {
  std::string names;
  for (const char* name : {"shm", "tcp", "rdma"}) {
    const bool used = std::any_of(connections_.links.begin(), connections_.links.end(),
                                  [&](const auto& link) { return link && std::strcmp(link->name(), name) == 0; });
    if (used) names += (names.empty() ? "" : "+") + std::string(name);
  }
  return names.empty() ? "self" : names;
}

cc_description Communicator::description_of(const Operation& operation) {
  check_process();
  const Turns::Turn turn(&turns_);
  const size_t bytes = data_bytes(operation, size());
  const Algorithms candidates = algorithms_of(operation.kind, chooser_.shape);
  if (candidates.empty()) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, format("%s has no algorithm to choose; expected a collective such as "
                                                  "CC_OPERATION_ALL_REDUCE",
                                                  name_of(operation.kind)));
  }
  const Overrides& overrides = chooser_.overrides;
  const Algorithm forced = overrides.forced[static_cast<size_t>(operation.kind)];
  const Algorithm tuned = tuning_.taken_by(operation.kind, bytes, static_cast<cc_dtype>(operation.dtype));
  const Algorithm taken =
      tuned != Algorithm::none ? tuned : choose(operation.kind, bytes, chooser_.shape, overrides, chooser_.model);
  const bool between = chooser_.shape.nodes > 1 && chooser_.shape.most_local == 1 && taken == overrides.between;
  const bool beyond = over_links_of_several(chooser_.shape) && bytes > kMostMeasuredOverLinks;
  const bool measured = !beyond && measuring_.measured().range_of(operation.kind, taken).last > 0;
  cc_description out{};
  out.size = sizeof out;
  out.bytes = bytes;
  out.reason = candidates.end() - candidates.begin() == 1 ? CC_REASON_ONLY
               : tuned != Algorithm::none                 ? CC_REASON_TUNER
               : taken == forced || between               ? CC_REASON_FORCED
               : measured                                 ? CC_REASON_MEASURED
                                                          : CC_REASON_MODEL;
  std::strncpy(out.algorithm, name_of(taken), sizeof out.algorithm - 1);
  std::strncpy(out.path, "host", sizeof out.path - 1);
  std::strncpy(out.transport, transports().c_str(), sizeof out.transport - 1);
  return out;
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
