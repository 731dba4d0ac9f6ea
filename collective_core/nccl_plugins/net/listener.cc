#include "net/listener.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "common/error.h"
#include "log.h"
#include "transport/tcp/socket.h"

namespace ccore::nccl {
namespace {

constexpr size_t kMostGroups = 64;

// Of this process.
std::atomic<size_t> g_listeners{0};

size_t share() { return std::max(size_t{1}, most_unproven() / std::max(size_t{1}, g_listeners.load())); }

}  // namespace

Listener::Listener(const Device& device, const Settings& settings, Handle* handle) : settings_(settings) {
  Address address = device.address;
  address.port = 0;
  std::vector<UniqueFd> listeners;
  listeners.push_back(listen_on(address, false));
  Digest secret{};
  random_bytes(secret.data(), secret.size());
  *handle = Handle{kMagic, secret, static_cast<uint32_t>(settings.streams), 0, local_address(listeners[0].get())};
  handle->address.scope = address.scope;
  acceptor_ = std::make_unique<Acceptor>(std::move(listeners), secret);
  ++g_listeners;
}

Listener::~Listener() { --g_listeners; }

size_t Listener::Group::here() const {
  return static_cast<size_t>(std::count_if(sockets.begin(), sockets.end(), [](const UniqueFd& one) { return !!one; }));
}

void Listener::introduce(Accepted accepted) {
  const Hello& hello = accepted.hello;
  if (hello.purpose != Purpose::nccl || hello.stream < 0 || hello.stream > settings_.streams) {
    const Address peer = peer_address(accepted.connection.fd.get());
    info(kLogNet, "NET/ccore : closed a connection from %s that is not one of this plugin", text(peer).c_str());
    return;
  }
  const ConnectionId id{hello.from, hello.to};
  auto found = groups_.find(id);
  if (found == groups_.end()) {
    if (groups_.size() >= kMostGroups) return;
    found = groups_.emplace(id, Group{{}, Deadline::in_ms(settings_.connect_ms)}).first;
    found->second.sockets.resize(static_cast<size_t>(settings_.streams) + 1);
  }
  // A second one of this number replaces the first one, whose other end has given it up.
  found->second.sockets[static_cast<size_t>(hello.stream)] = std::move(accepted.connection.fd);
}

void Listener::check_groups() {
  for (const auto& [connection, group] : groups_) {
    if (!group.deadline.passed()) continue;
    throw Error(
        CC_ERROR_TIMEOUT,
        format("only %zu of the %d sockets of a connection came within %lld s (CCORE_INIT_TIMEOUT_S); a firewall "
               "or a limit of open files on the peer may hold back the others",
               group.here(), settings_.streams + 1, static_cast<long long>(settings_.connect_ms / 1000)));
  }
}

std::unique_ptr<ReceiveComm> Listener::accept() {
  acceptor_->limit(share());
  while (auto accepted = acceptor_->next(Deadline::in_ms(0))) introduce(std::move(*accepted));
  for (auto at = groups_.begin(); at != groups_.end(); ++at) {
    if (at->second.here() < at->second.sockets.size()) continue;
    std::vector<UniqueFd> sockets = std::move(at->second.sockets);
    groups_.erase(at);
    const std::string peer = "from " + text(peer_address(sockets.front().get()));
    return std::make_unique<ReceiveComm>(std::move(sockets), settings_, peer);
  }
  check_groups();
  return nullptr;
}

}  // namespace ccore::nccl
