#include "agreement.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdio>

#include "device.h"
#include "device_scope.h"
#include "driver.h"
#include "error.h"
#include "nvml.h"
#include "path_choice.h"
#include "peer_probe.h"
#include "protocol/layout.h"

namespace ccore_cuda {
namespace {

constexpr int kMpsEnabled = 133;  // CU_DEVICE_ATTRIBUTE_MPS_ENABLED, of CUDA 12

struct Capability {
  RankFacts facts;
  Wishes wishes;
  char device_name[64];
  char error[160];
};

// Of the GPU of one rank, by the rank at the other end. Ranks that share a GPU count its links once each.
struct Nvlinks {
  int32_t is_known;
  int32_t to_switches;
  int32_t to_ranks[kMostRanks];
};

// By rank. Ranks that share a GPU would be without links to each other: only the first of each GPU has a row.
NvlinkMatrix exchange_nvlinks(const Meeting& meeting, const std::vector<RankFacts>& ranks) {
  std::vector<size_t> firsts;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const bool is_new =
        std::none_of(firsts.begin(), firsts.end(), [&](size_t first) { return ranks[first].bus == ranks[rank].bus; });
    if (is_new) firsts.push_back(rank);
  }
  std::vector<uint64_t> peers;
  for (const RankFacts& facts : ranks) peers.push_back(facts.bus);
  const OwnNvlinks found = read_nvlinks(ranks[static_cast<size_t>(meeting.rank())].bus, peers);
  Nvlinks own{found.is_known ? 1 : 0, found.to_switches, {}};
  std::copy(found.to_peers.begin(), found.to_peers.end(), own.to_ranks);
  const auto all = meeting.exchange(own);
  NvlinkMatrix matrix;
  for (const size_t first : firsts) {
    matrix.is_known = matrix.is_known && all[first].is_known;
    matrix.to_switches.push_back(all[first].to_switches);
    matrix.links.emplace_back();
    for (const size_t other : firsts) matrix.links.back().push_back(all[first].to_ranks[other]);
  }
  return matrix;
}

uint64_t own_process() {
  static const uint64_t token = [] {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) throw Error(CC_ERROR_SYSTEM, "getrandom failed");
    return random;
  }();
  return token;
}

void report_device(Capability* own) {
  const int device = DeviceContext::current().device();
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "asking for the properties of the device");
  own->facts.uuid = uuid_of(device, properties);
  own->facts.bus = bus_of(properties);
  own->facts.has_mps = device_attribute(device, kMpsEnabled);
  own->facts.has_stream_operations = has_stream_operations() ? 1 : 0;
  own->facts.orders_remote_writes = orders_remote_writes(device) ? 1 : 0;
  std::snprintf(own->device_name, sizeof own->device_name, "%.63s", properties.name);
}

// A rank without a device reports that, so that the others do not wait for it.
Capability own_capability(const Meeting& meeting, const Wishes& wishes) {
  Capability own{};
  own.wishes = wishes;
  own.facts.process = own_process();
  cc_peer_info info{};
  info.size = sizeof info;
  own.facts.node = cc_comm_peer_info(meeting.comm(), meeting.rank(), &info) == CC_SUCCESS ? info.node : -1;
  try {
    report_device(&own);
  } catch (const Error& error) {
    put(own.error, error.what());
  }
  return own;
}

template <typename Value>
void require_equal(const std::vector<Capability>& all, Value Wishes::* member, const char* what) {
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].wishes.*member == all[0].wishes.*member) continue;
    throw Error(CC_ERROR_INVALID_ARGUMENT, std::string(what) + " is " + std::to_string(all[0].wishes.*member) +
                                               " on rank 0 and " + std::to_string(all[rank].wishes.*member) +
                                               " on rank " + std::to_string(rank) + "; set the same on all ranks");
  }
}

}  // namespace

Agreement agree(const Meeting& meeting, const Wishes& wishes) {
  const auto all = meeting.exchange(own_capability(meeting, wishes));
  require_all(all);
  require_equal(all, &Wishes::path, "the path (CCORE_CUDA_PATH)");
  require_equal(all, &Wishes::staging_bytes, "cc_cuda_options.staging_bytes");
  require_equal(all, &Wishes::packet_bytes, "CCORE_CUDA_PACKET_BYTES");
  require_equal(all, &Wishes::first_epoch, "cc_cuda_options.first_epoch");
  const auto self = static_cast<size_t>(meeting.rank());
  std::vector<RankFacts> ranks;
  for (const Capability& one : all) ranks.push_back(one.facts);
  RankTable table(ranks);
  // The path through the host is the way out where the use of peers' memory faults.
  if (wishes.path != CC_CUDA_PATH_HOST) probe_peers(meeting, &table);

  const PathChoice choice = choose_path(table, wishes.path);
  if (choice.result != CC_SUCCESS) throw Error(choice.result, choice.reason);
  Agreement result{};
  result.path = choice.path;
  for (const RankFacts& facts : table.ranks) {
    result.processes.push_back(facts.process);
    const bool is_own_process = facts.process == table.ranks[self].process;
    if (is_own_process && facts.uuid != table.ranks[self].uuid) result.has_threads_elsewhere = true;
  }
  result.ranks_on_device = ranks_on_device(table.ranks, self);
  result.most_threads = choice.most_threads;
  result.takes_turns = choice.takes_turns;
  result.waits_in_streams = choice.path == CC_CUDA_PATH_STREAM || choice.waits_in_streams;
  result.autotune = all[0].wishes.autotune != 0;
  result.gpus = choice.gpus;
  result.links = NvlinkClass::kUnknown;
  result.description = std::string("path ") + name_of(result.path) + " (" + choice.reason + "), " +
                       std::to_string(all.size()) + (all.size() == 1 ? " rank" : " ranks");
  if (!choice.pairs.empty()) result.description += ", " + choice.pairs;
  if (choice.gpus > 1) {
    const NvlinkMatrix matrix = exchange_nvlinks(meeting, table.ranks);
    result.links = class_of(matrix);
    result.description += ", " + describe(matrix);
  }
  result.description +=
      std::string("; ") + all[self].device_name + (all[self].facts.has_mps ? " with MPS" : " without MPS");
  return result;
}

}  // namespace ccore_cuda
