// One port of an RDMA device: chosen, opened and watched for as long as a communicator uses it.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/unique_fd.h"
#include "transport/rdma/verbs.h"
#include "transport/tcp/socket.h"

namespace ccore {

// What a user asks for; empty and -1: the rule of open().
struct RdmaWish {
  std::string device;  // "mlx5_0" or "mlx5_0:1"; several with commas between: a rail each
  int gid_index = -1;
  int traffic_class = 106;  // of RoCE packets: DSCP 26, and ECN-capable
  int queue_pairs = 1;      // per peer and rail; the smaller number of both ends counts
  int port_patience_ms = 8000;  // for a port that is down: what an unanswered write takes to fail, see queue_pair.cc
};
RdmaWish rdma_wish_from_env();

class RdmaDevice;
using PortChoice = std::function<size_t(const std::vector<std::string>& devices)>;

// The ports that a rank uses side by side, in the order of its rails: the first one of a rank reaches the first ones of
// others. At least one where there is RDMA.
using RdmaRails = std::vector<std::shared_ptr<RdmaDevice>>;
constexpr size_t kMostRdmaRails = 4;
constexpr size_t kMostQueuePairs = 8;  // per peer, over all rails

class RdmaDevice {
 public:
  // own: the address at which the other nodes reach this rank; the RoCE port that has it is the first choice, best the
  // one whose own interface has it: Linux also lists it at a port below a macvlan. Without such a port, `choose`
  // returns the place in the list of the active ports' devices, sorted, of the one to take. Throws CC_ERROR_SYSTEM with
  // what each port lacks.
  static std::unique_ptr<RdmaDevice> open(const RdmaWish& wish, const Address& own, const PortChoice& choose);
  ~RdmaDevice();
  RdmaDevice(const RdmaDevice&) = delete;
  RdmaDevice& operator=(const RdmaDevice&) = delete;

  const Verbs& verbs() const { return *verbs_; }
  ibv::Context* context() const { return context_; }
  ibv::Pd* pd() const { return pd_; }
  uint8_t port() const { return port_; }
  const ibv::PortAttr& attributes() const { return attributes_; }
  bool ethernet() const { return attributes_.link_layer == ibv::kLinkEthernet; }
  const ibv::Gid& gid() const { return gid_; }
  uint8_t gid_index() const { return gid_index_; }
  uint8_t traffic_class() const { return traffic_class_; }
  uint32_t queue_pairs() const { return queue_pairs_; }
  // "mlx5_0 port 1, GID 3 (10.0.0.1)".
  std::string text() const;
  // What the device has reported since it was opened, such as the loss of its port: ", after ...". Else empty.
  std::string news() const;
  // Whether it failed, or its port is down now.
  bool is_down() const;
  // Why nothing moves any more: it failed, or its port has been down for too long. Else empty.
  std::string obstacle() const;

  // Makes memory of this process known to the device, at most for writes of others (remote) into it. Throws
  // CC_ERROR_SYSTEM with the limit that may be the cause.
  ibv::Mr* pin(void* memory, size_t bytes, int access);
  void unpin(ibv::Mr* region);
  // Bytes of rings that may be pinned beside those that are: what one communicator pins on a rank stays below 64 MiB.
  size_t ring_bytes_left() const { return kMostRingBytes - std::min(kMostRingBytes, ring_bytes_); }
  void count_ring(size_t bytes) { ring_bytes_ += bytes; }
  void uncount_ring(size_t bytes) { ring_bytes_ -= bytes; }
  // Sends from this memory need no copy. It must stay registered until it is removed again.
  void add_source(const ibv::Mr* region) { sources_.push_back(region); }
  void remove_source(const ibv::Mr* region);
  // The region in which all of these bytes lie; null: none.
  const ibv::Mr* source_of(const void* data, size_t size) const;

 private:
  static constexpr size_t kMostRingBytes = size_t{64} << 20;

  RdmaDevice(const Verbs* verbs, ibv::Device* device);
  // Throws CC_ERROR_SYSTEM with what the port lacks.
  void take_port(uint8_t port, const RdmaWish& wish, const Address& own);
  void start();
  void watch();

  const Verbs* verbs_;
  std::string name_;
  ibv::Context* context_ = nullptr;
  ibv::Pd* pd_ = nullptr;
  uint8_t port_ = 1;
  ibv::PortAttr attributes_{};
  ibv::Gid gid_{};
  uint8_t gid_index_ = 0;
  uint8_t traffic_class_ = 0;
  uint32_t queue_pairs_ = 1;
  int closeness_ = 0;  // to the address of the rank: 2: of its own interface, 1: of one above that, 0: it has others
  size_t ring_bytes_ = 0;
  std::vector<const ibv::Mr*> sources_;
  UniqueFd stop_;
  std::thread watcher_;
  int port_patience_ms_ = 0;
  std::atomic<bool> dead_{false};
  std::atomic<int64_t> down_since_ns_{0};  // 0: its port is not down
  mutable std::mutex mutex_;
  std::string news_;
};

// Opens the ports of the wish, or one of its own choice (RdmaDevice::open). Throws what that throws, and
// CC_ERROR_INVALID_ARGUMENT for a list that cannot be.
RdmaRails open_rails(const RdmaWish& wish, const Address& own, const PortChoice& choose);
// "mlx5_0 port 1, GID 3 (10.0.0.1) and mlx5_1 port 1, GID 3 (10.1.0.1)".
// Of the first `count`, or of all if there are fewer.
std::string text_of_rails(const RdmaRails& rails, size_t count = kMostRdmaRails);
// What those of them reported that are down now (RdmaDevice::news).
std::string losses_of_rails(const RdmaRails& rails);

// Memory that each of some rails has registered, as long as this lives.
class RailRegions {
 public:
  // Throws CC_ERROR_SYSTEM; then none has it.
  RailRegions(RdmaRails rails, void* memory, size_t bytes, int access);
  ~RailRegions();
  RailRegions(const RailRegions&) = delete;
  RailRegions& operator=(const RailRegions&) = delete;

  const RdmaRails& rails() const { return rails_; }
  const ibv::Mr& on(size_t rail) const { return *regions_[rail]; }

 private:
  void release();

  RdmaRails rails_;
  std::vector<ibv::Mr*> regions_;  // by rail
};

// Memory from which all rails send without a copy, as long as this lives. It must not be unmapped before.
class RegisteredSource {
 public:
  // Throws CC_ERROR_SYSTEM.
  RegisteredSource(const RdmaRails& rails, void* memory, size_t bytes);
  ~RegisteredSource();
  RegisteredSource(const RegisteredSource&) = delete;
  RegisteredSource& operator=(const RegisteredSource&) = delete;

 private:
  RailRegions regions_;
};

// "10.0.0.1" of a GID that holds an IPv4 address, else its sixteen bytes.
std::string text_of_gid(const ibv::Gid& gid);

}  // namespace ccore
