#include "agreement.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "driver.h"
#include "error.h"

namespace ccore_cuda {
namespace {

constexpr int kMpsEnabled = 133;  // CU_DEVICE_ATTRIBUTE_MPS_ENABLED, of CUDA 12

struct Capability {
  uint64_t process;  // of ids, which repeat in containers, no two are equal
  unsigned char device[16];
  Wishes wishes;
  int32_t node;
  int32_t has_mps;
  int32_t has_stream_operations;
  char device_name[64];
  char error[160];
};

enum class Link : uint8_t { kNone, kSelf, kThread, kSameDevice, kPeer };
struct Links {
  Link to[16];
};

uint64_t own_process() {
  static const uint64_t token = [] {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) throw Error(CC_ERROR_SYSTEM, "getrandom failed");
    return random;
  }();
  return token;
}

Capability own_capability(const Meeting& meeting, const Wishes& wishes, int device) {
  Capability own{};
  own.process = own_process();
  own.wishes = wishes;
  cc_peer_info info{};
  info.size = sizeof info;
  own.node = cc_comm_peer_info(meeting.comm(), meeting.rank(), &info) == CC_SUCCESS ? info.node : -1;
  cudaDeviceProp properties{};
  const cudaError_t code = cudaGetDeviceProperties(&properties, device);
  if (code != cudaSuccess) {
    put(own.error, std::string("asking for the properties of the device: ") + reason_of(code));
    return own;
  }
  std::memcpy(own.device, properties.uuid.bytes, sizeof own.device);
  std::snprintf(own.device_name, sizeof own.device_name, "%.63s", properties.name);
  own.has_mps = device_attribute(device, kMpsEnabled);
  own.has_stream_operations = has_stream_operations() ? 1 : 0;
  return own;
}

bool same_device(const Capability& a, const Capability& b) {
  return std::memcmp(a.device, b.device, sizeof a.device) == 0;
}

// The device of a peer as this process counts them; -1 if CUDA_VISIBLE_DEVICES hides it.
int ordinal_of(const Capability& peer) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return -1;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) == cudaSuccess &&
        std::memcmp(properties.uuid.bytes, peer.device, sizeof peer.device) == 0) {
      return device;
    }
  }
  return -1;
}

Link link_to(const Capability& own, const Capability& peer, int device) {
  if (own.node != peer.node) return Link::kNone;
  if (same_device(own, peer)) return own.process == peer.process ? Link::kThread : Link::kSameDevice;
  const int other = ordinal_of(peer);
  int can = 0;
  if (other < 0 || cudaDeviceCanAccessPeer(&can, device, other) != cudaSuccess || !can) return Link::kNone;
  if (own.process == peer.process) {
    const cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);
    cudaGetLastError();
    if (code != cudaSuccess && code != cudaErrorPeerAccessAlreadyEnabled) return Link::kNone;
  }
  return Link::kPeer;
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

const char* name_of(cc_cuda_path path) {
  switch (path) {
    case CC_CUDA_PATH_STREAM:
      return "stream";
    case CC_CUDA_PATH_KERNEL:
      return "kernel";
    case CC_CUDA_PATH_HOST:
      return "host";
    default:
      return "auto";
  }
}

Agreement agree(const Meeting& meeting, const Wishes& wishes) {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  const auto all = meeting.exchange(own_capability(meeting, wishes, device));
  require_all(all);
  require_equal(all, &Wishes::path, "the path (CCORE_CUDA_PATH)");
  require_equal(all, &Wishes::staging_bytes, "cc_cuda_options.staging_bytes");
  require_equal(all, &Wishes::packet_bytes, "CCORE_CUDA_PACKET_BYTES");
  require_equal(all, &Wishes::first_epoch, "cc_cuda_options.first_epoch");
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].node != all[0].node) {
      throw Error(CC_ERROR_INVALID_USAGE, "ranks 0 and " + std::to_string(rank) +
                                              " are on different nodes; a handle serves the GPUs of one node");
    }
  }
  const auto self = static_cast<size_t>(meeting.rank());
  Links own_links{};
  for (size_t rank = 0; rank < all.size(); ++rank) {
    own_links.to[rank] = rank == self ? Link::kSelf : link_to(all[self], all[rank], device);
  }
  const auto links = meeting.exchange(own_links);

  Agreement result{};
  std::string unreachable, crowded;
  int pairs[5] = {};
  for (size_t a = 0; a < all.size(); ++a) {
    result.processes.push_back(all[a].process);
    if (same_device(all[a], all[self])) {
      ++result.ranks_on_device;
      if (all[a].process == all[self].process) ++result.threads_on_device;
    }
    for (size_t b = a + 1; b < all.size(); ++b) {
      const Link link = std::min(links[a].to[b], links[b].to[a]);
      ++pairs[static_cast<int>(link)];
      const std::string pair = std::to_string(a) + " and " + std::to_string(b);
      if (link == Link::kNone && unreachable.empty()) unreachable = pair;
      if (link == Link::kSameDevice && !all[a].has_mps && crowded.empty()) crowded = pair;
    }
  }
  result.takes_turns = !crowded.empty();
  std::string reason;
  if (wishes.path != CC_CUDA_PATH_AUTO) {
    result.path = wishes.path;
    reason = "as requested";
    if (wishes.path != CC_CUDA_PATH_HOST && !unreachable.empty()) {
      throw Error(CC_ERROR_INVALID_USAGE, std::string("the path '") + name_of(wishes.path) +
                                              "' needs peer access, and ranks " + unreachable +
                                              " have none; set CCORE_CUDA_PATH=host or auto");
    }
  } else if (!unreachable.empty()) {
    result.path = CC_CUDA_PATH_HOST;
    reason = "ranks " + unreachable + " have no peer access";
  } else if (!crowded.empty()) {
    result.path = CC_CUDA_PATH_STREAM;
    reason = "ranks " + crowded + " are processes that share a GPU without MPS";
  } else {
    result.path = CC_CUDA_PATH_KERNEL;
    reason = "every pair has peer access, and ranks of one GPU run at the same time";
  }
  if (result.path == CC_CUDA_PATH_STREAM) {
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (!all[rank].has_stream_operations) {
        throw Error(CC_ERROR_SYSTEM, "rank " + std::to_string(rank) +
                                         ": the driver cannot queue memory operations on streams; it needs CUDA 11.7");
      }
    }
  }
  result.description = std::string("path ") + name_of(result.path) + " (" + reason + "), " +
                       std::to_string(all.size()) + (all.size() == 1 ? " rank" : " ranks");
  constexpr const char* kNames[] = {"without peer access", "", "of one process and GPU", "of processes on one GPU",
                                    "between GPUs with peer access"};
  for (const int link : {0, 2, 3, 4}) {
    if (pairs[link])
      result.description +=
          ", " + std::to_string(pairs[link]) + (pairs[link] == 1 ? " pair " : " pairs ") + kNames[link];
  }
  result.description += std::string("; ") + all[self].device_name + (all[self].has_mps ? " with MPS" : " without MPS");
  return result;
}

}  // namespace ccore_cuda
