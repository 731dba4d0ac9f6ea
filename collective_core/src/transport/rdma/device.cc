#include "transport/rdma/device.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/clock.h"
#include "common/env.h"
#include "common/error.h"
#include "common/log.h"
#include "common/own_thread.h"
#include "transport/rdma/queue_pair.h"

namespace ccore {
namespace {

// A device reports at most 255 ports and a few hundred GIDs; a broken one must not keep the search going.
constexpr int kMostGids = 1024;
constexpr int kMostDevices = 256;
constexpr uint8_t kMostPorts = 4;

bool holds_ipv4(const ibv::Gid& gid) {
  constexpr uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, prefix, sizeof prefix) == 0;
}

Address address_of_gid(const ibv::Gid& gid) {
  Address address;
  address.family = holds_ipv4(gid) ? AF_INET : AF_INET6;
  std::memcpy(address.host, holds_ipv4(gid) ? gid.raw + 12 : gid.raw, holds_ipv4(gid) ? 4 : 16);
  return address;
}

bool same_host(const Address& one, const Address& other) {
  return one.family == other.family && std::memcmp(one.host, other.host, one.family == AF_INET ? 4 : 16) == 0;
}

bool is_link_local(const ibv::Gid& gid) { return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80; }

struct DeviceList {
  explicit DeviceList(const Verbs& table) : verbs(table), list(table.get_device_list(&count)) {}
  ~DeviceList() {
    if (list) verbs.free_device_list(list);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  const Verbs& verbs;
  int count = 0;
  ibv::Device** list;
};

std::string name_of_device(const ibv::Device& device) {
  return std::string(device.name, strnlen(device.name, sizeof device.name));
}

struct NamedPort {
  std::string device;
  int port = 0;  // 0: any
};

NamedPort named_port(const std::string& text) {
  const size_t colon = text.find(':');
  NamedPort named{text.substr(0, colon), 0};
  if (colon == std::string::npos) return named;
  const std::string digits = text.substr(colon + 1);
  if (digits.size() != 1 || digits[0] < '1' || digits[0] > '0' + kMostPorts) {
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                "CCORE_RDMA_DEVICE=" + text + ": expected a device and a port from 1 to 4, such as mlx5_0:1");
  }
  named.port = digits[0] - '0';
  return named;
}

// One for each rail; an empty one where the user names none.
std::vector<std::string> wished_ports(const RdmaWish& wish) {
  std::vector<std::string> ports;
  size_t begin = 0;
  while (begin != std::string::npos) {
    const size_t comma = wish.device.find(',', begin);
    ports.push_back(wish.device.substr(begin, comma == std::string::npos ? comma : comma - begin));
    begin = comma == std::string::npos ? comma : comma + 1;
  }
  const auto fail = [&](const std::string& what) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, "CCORE_RDMA_DEVICE=" + wish.device + what);
  };
  if (ports.size() == 1 && ports.front().empty()) return ports;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].empty()) fail(": a name is missing; expected device names with commas between, such as mlx5_0,mlx5_1");
    const NamedPort own = named_port(ports[i]);
    for (size_t k = 0; k < i; ++k) {
      const NamedPort other = named_port(ports[k]);
      // A device without a port may mean any of its ports.
      if (own.device != other.device || (own.port != 0 && other.port != 0 && own.port != other.port)) continue;
      fail(": " + ports[k] + " and " + ports[i] +
           " may be one port; expected each port once, such as mlx5_0:1,mlx5_0:2");
    }
  }
  if (ports.size() > kMostRdmaRails) fail(format(": expected at most %zu devices", kMostRdmaRails));
  const size_t pairs = ports.size() * static_cast<size_t>(wish.queue_pairs);
  if (pairs > kMostQueuePairs) {
    fail(format(" with CCORE_RDMA_QPS=%d: that is %zu queue pairs per peer; expected at most %zu", wish.queue_pairs,
                pairs, kMostQueuePairs));
  }
  return ports;
}

std::string registration_hint(int error) {
  if (error != ENOMEM && error != EAGAIN && error != EPERM) return "";
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return " (the limit of locked memory is not the cause: the device has no more regions, or its BAR is too small)";
  }
  return format(" (locked memory is limited to %llu KiB; set memlock to unlimited, see `ulimit -l`)",
                static_cast<unsigned long long>(limit.rlim_cur / 1024));
}

}  // namespace

std::string losses_of_rails(const RdmaRails& rails) {
  std::string losses;
  for (const auto& rail : rails) {
    if (rail->is_down()) losses += rail->news();
  }
  return losses;
}

RdmaWish rdma_wish_from_env() {
  RdmaWish wish;
  wish.device = env_text("CCORE_RDMA_DEVICE");
  wish.gid_index = static_cast<int>(env_integer("CCORE_RDMA_GID_INDEX", -1, -1, 255));
  wish.traffic_class = static_cast<int>(env_integer("CCORE_RDMA_TRAFFIC_CLASS", wish.traffic_class, 0, 255));
  wish.queue_pairs = static_cast<int>(env_integer("CCORE_RDMA_QPS", wish.queue_pairs, 1, kMostQueuePairs));
  wished_ports(wish);
  return wish;
}

RdmaRails open_rails(const RdmaWish& wish, const Address& own, const PortChoice& choose) {
  RdmaRails rails;
  for (const std::string& port : wished_ports(wish)) {
    RdmaWish one = wish;
    one.device = port;
    rails.push_back(RdmaDevice::open(one, own, choose));
  }
  return rails;
}

std::string text_of_rails(const RdmaRails& rails, size_t count) {
  std::string text;
  for (size_t rail = 0; rail < std::min(count, rails.size()); ++rail) {
    text += (text.empty() ? "" : " and ") + rails[rail]->text();
  }
  return text;
}

std::string text_of_gid(const ibv::Gid& gid) { return host_text(address_of_gid(gid)); }

std::unique_ptr<RdmaDevice> RdmaDevice::open(const RdmaWish& wish, const Address& own, const PortChoice& choose) {
  const Verbs& table = ccore::verbs();
  const NamedPort named = named_port(wish.device);
  errno = 0;
  const DeviceList devices(table);
  if (!devices.list) throw Error(CC_ERROR_SYSTEM, "cannot list RDMA devices: " + errno_text(errno));
  std::vector<std::unique_ptr<RdmaDevice>> usable;
  std::string obstacles;
  bool seen = false;
  for (int i = 0; i < std::min(devices.count, kMostDevices); ++i) {
    ibv::Device* device = devices.list[i];
    const std::string name = name_of_device(*device);
    if (!named.device.empty() && name != named.device) continue;
    seen = true;
    for (uint8_t port = 1; port <= kMostPorts; ++port) {
      if (named.port != 0 && named.port != port) continue;
      try {
        std::unique_ptr<RdmaDevice> candidate(new RdmaDevice(&table, device));
        candidate->take_port(port, wish, own);
        usable.push_back(std::move(candidate));
      } catch (const Error& error) {
        // Most devices have one port, and the others then are not ports that lack something.
        if (port == 1 || named.port == port) obstacles += (obstacles.empty() ? "" : "; ") + std::string(error.what());
      }
    }
  }
  if (!seen && !named.device.empty()) throw Error(CC_ERROR_SYSTEM, "there is no RDMA device " + named.device);
  if (!seen) throw Error(CC_ERROR_SYSTEM, "there is no RDMA device");
  if (usable.empty()) throw Error(CC_ERROR_SYSTEM, "no RDMA port is usable: " + obstacles);
  std::sort(usable.begin(), usable.end(), [](const auto& one, const auto& other) {
    return std::make_pair(one->name_, one->port_) < std::make_pair(other->name_, other->port_);
  });
  auto chosen = std::max_element(usable.begin(), usable.end(), [](const auto& one, const auto& other) {
    return one->closeness_ < other->closeness_;
  });
  if ((*chosen)->closeness_ == 0) {
    std::vector<std::string> names;
    for (const auto& one : usable) names.push_back(one->name_);
    chosen = usable.begin() + static_cast<std::ptrdiff_t>(choose(names));
  }
  (*chosen)->start();
  return std::move(*chosen);
}

RdmaDevice::RdmaDevice(const Verbs* verbs, ibv::Device* device) : verbs_(verbs), name_(name_of_device(*device)) {
  if (device->transport_type == ibv::kTransportIwarp) {
    throw Error(CC_ERROR_SYSTEM, name_ + " is an iWARP device, which has no write with immediate (RFC 7306)");
  }
  if (device->transport_type != ibv::kTransportInfiniband) {
    throw Error(CC_ERROR_SYSTEM, name_ + " is neither an InfiniBand nor a RoCE device");
  }
  errno = 0;
  context_ = verbs_->open_device(device);
  if (!context_) throw Error(CC_ERROR_SYSTEM, "cannot open RDMA device " + name_ + ": " + errno_text(errno));
}

void RdmaDevice::take_port(uint8_t port, const RdmaWish& wish, const Address& own) {
  port_ = port;
  const std::string where = name_ + " port " + std::to_string(port);
  const int error = verbs_->query_port(context_, port, &attributes_);
  if (error != 0) throw Error(CC_ERROR_SYSTEM, where + ": " + errno_text(error > 0 ? error : errno));
  if (attributes_.state != ibv::kPortActive) throw Error(CC_ERROR_SYSTEM, where + " is not active");
  traffic_class_ = static_cast<uint8_t>(wish.traffic_class);
  queue_pairs_ = static_cast<uint32_t>(wish.queue_pairs);
  port_patience_ms_ = wish.port_patience_ms;
  bool found = false;
  ibv::GidEntry first{};  // the kernel gives the first place to the port's own interface
  if (verbs_->query_gid_ex(context_, port, 0, &first, 0, sizeof first) != 0) first.ndev_ifindex = 0;
  for (int index = 0; index < std::min({attributes_.gid_tbl_len, kMostGids, 256}); ++index) {
    if (wish.gid_index >= 0 && index != wish.gid_index) continue;
    ibv::GidEntry entry{};
    const int missing = verbs_->query_gid_ex(context_, port, static_cast<uint32_t>(index), &entry, 0, sizeof entry);
    if (missing != 0) continue;
    if (ethernet() && entry.gid_type != ibv::kGidRoceV2) continue;
    const bool own_address = ethernet() && same_host(address_of_gid(entry.gid), own);
    // Link-local addresses reach no other subnet; of the others, the one that peers reach already is the best.
    if (ethernet() && wish.gid_index < 0 && is_link_local(entry.gid) && !own_address) continue;
    if (found && !own_address && !(holds_ipv4(entry.gid) && !holds_ipv4(gid_))) continue;
    gid_ = entry.gid;
    gid_index_ = static_cast<uint8_t>(index);
    const bool own_interface = entry.ndev_ifindex != 0 && entry.ndev_ifindex == first.ndev_ifindex;
    closeness_ = !own_address ? 0 : own_interface ? 2 : 1;
    found = true;
    if (own_address || !ethernet()) break;
  }
  if (found) return;
  if (wish.gid_index >= 0) {
    throw Error(CC_ERROR_SYSTEM, format("%s: CCORE_RDMA_GID_INDEX=%d is not a%s GID of it", where.c_str(),
                                        wish.gid_index, ethernet() ? " RoCE v2" : "n InfiniBand"));
  }
  throw Error(CC_ERROR_SYSTEM, where + (ethernet() ? " has no RoCE v2 GID with an address" : " has no GID"));
}

void RdmaDevice::start() {
  errno = 0;
  pd_ = verbs_->alloc_pd(context_);
  if (!pd_) throw Error(CC_ERROR_SYSTEM, "cannot allocate a protection domain on " + name_ + ": " + errno_text(errno));
  const int flags = fcntl(context_->async_fd, F_GETFL);
  if (flags < 0 || fcntl(context_->async_fd, F_SETFL, flags | O_NONBLOCK) != 0) throw_errno("async events of " + name_);
  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_) throw_errno("eventfd");
  watcher_ = own_thread([this] { watch(); });
}

RdmaDevice::~RdmaDevice() {
  if (watcher_.joinable()) {
    const uint64_t one = 1;
    static_cast<void>(write(stop_.get(), &one, sizeof one));
    watcher_.join();
  }
  if (pd_) verbs_->dealloc_pd(pd_);
  if (context_) verbs_->close_device(context_);
}

void RdmaDevice::watch() {
  pollfd fds[2] = {{stop_.get(), POLLIN, 0}, {context_->async_fd, POLLIN, 0}};
  while (true) {
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
    if (fds[0].revents != 0) return;
    ibv::AsyncEvent event{};
    if (fds[1].revents == 0 || verbs_->get_async_event(context_, &event) != 0) {
      if ((fds[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return;
      continue;
    }
    const bool of_port = event.event_type == ibv::kEventPortError || event.event_type == ibv::kEventPortActive;
    const bool ours = !of_port || event.element.port_num == port_;
    const bool usual = event.event_type == ibv::kEventEstablished || event.event_type == ibv::kEventDrained;
    if (ours && !usual) {
      const std::string what = std::string(verbs_->event_type_str(event.event_type)) + " of " + name_;
      log(LogLevel::warn, "RDMA: %s", what.c_str());
      const std::lock_guard<std::mutex> lock(mutex_);
      if (event.event_type == ibv::kEventPortActive) {
        news_.clear();
      } else if (news_.empty() || event.event_type <= ibv::kEventPortError) {
        // A port that goes down also changes its table of GIDs; the later events are such consequences.
        news_ = ", after the event '" + what + "'";
      }
    }
    if (event.event_type == ibv::kEventDeviceFatal) dead_.store(true, std::memory_order_release);
    if (of_port && ours) {
      const bool down = event.event_type == ibv::kEventPortError;
      down_since_ns_.store(down ? now_ns() : 0, std::memory_order_release);
    }
    verbs_->ack_async_event(&event);
  }
}

ibv::Mr* RdmaDevice::pin(void* memory, size_t bytes, int access) {
  errno = 0;
  ibv::Mr* region = verbs_->reg_mr(pd_, memory, bytes, access);
  if (region) return region;
  const int error = errno;
  throw Error(CC_ERROR_SYSTEM, format("cannot register %zu KiB with %s: %s%s", bytes / 1024, text().c_str(),
                                      errno_text(error).c_str(), registration_hint(error).c_str()));
}

void RdmaDevice::unpin(ibv::Mr* region) { verbs_->dereg_mr(region); }

void RdmaDevice::remove_source(const ibv::Mr* region) {
  sources_.erase(std::remove(sources_.begin(), sources_.end(), region), sources_.end());
}

const ibv::Mr* RdmaDevice::source_of(const void* data, size_t size) const {
  const auto at = reinterpret_cast<uintptr_t>(data);
  for (const ibv::Mr* region : sources_) {
    const auto begin = reinterpret_cast<uintptr_t>(region->addr);
    if (at >= begin && size <= region->length && at - begin <= region->length - size) return region;
  }
  return nullptr;
}

RailRegions::RailRegions(RdmaRails rails, void* memory, size_t bytes, int access) : rails_(std::move(rails)) {
  try {
    for (const auto& rail : rails_) regions_.push_back(rail->pin(memory, bytes, access));
  } catch (...) {
    release();
    throw;
  }
}

RailRegions::~RailRegions() { release(); }

void RailRegions::release() {
  for (size_t rail = 0; rail < regions_.size(); ++rail) rails_[rail]->unpin(regions_[rail]);
}

// Without any access: the devices only read it.
RegisteredSource::RegisteredSource(const RdmaRails& rails, void* memory, size_t bytes)
    : regions_(rails, memory, bytes, 0) {
  for (size_t rail = 0; rail < rails.size(); ++rail) rails[rail]->add_source(&regions_.on(rail));
}

RegisteredSource::~RegisteredSource() {
  for (size_t rail = 0; rail < regions_.rails().size(); ++rail) {
    regions_.rails()[rail]->remove_source(&regions_.on(rail));
  }
}

std::string RdmaDevice::text() const {
  return format("%s port %d, GID %d (%s)", name_.c_str(), port_, gid_index_, text_of_gid(gid_).c_str());
}

bool RdmaDevice::is_down() const {
  return dead_.load(std::memory_order_acquire) || down_since_ns_.load(std::memory_order_acquire) != 0;
}

std::string RdmaDevice::obstacle() const {
  if (dead_.load(std::memory_order_acquire)) return "the device failed";
  const int64_t since_ns = down_since_ns_.load(std::memory_order_acquire);
  if (since_ns == 0 || now_ns() - since_ns < int64_t{port_patience_ms_} * 1000000) return "";
  return format("the port has been down for %.1f s", static_cast<double>(now_ns() - since_ns) / 1e9);
}

std::string RdmaDevice::news() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return news_;
}

}  // namespace ccore
