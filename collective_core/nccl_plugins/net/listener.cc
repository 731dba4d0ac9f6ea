#include "net/listener.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/error.h"
#include "log.h"
#include "transport/tcp/socket.h"

namespace ccore::nccl {
namespace {

// Strangers that send nothing take no more than this.
constexpr size_t kMostNewcomers = 64;
constexpr int64_t kHelloMs = 10000;
constexpr size_t kMostGroups = 64;

// Takes equally long for every wrong token.
bool equal(const Token& a, const Token& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

void fill_random(void* data, size_t size) {
  if (getrandom(data, size, 0) != static_cast<ssize_t>(size)) throw_errno("getrandom");
}

Listener::Listener(const Device& device, const Settings& settings, Handle* handle) : settings_(settings) {
  Address address = device.address;
  address.port = 0;
  fd_ = listen_on(address, false);
  fill_random(token_.data(), token_.size());
  *handle = Handle{kMagic, token_, static_cast<uint32_t>(settings.streams), 0, local_address(fd_.get())};
  handle->address.scope = address.scope;
}

void Listener::take_newcomers() {
  while (newcomers_.size() < kMostNewcomers) {
    UniqueFd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      newcomers_.push_back(Newcomer{std::move(fd), {}, 0, Deadline::in_ms(kHelloMs)});
      continue;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    throw_errno("accept a connection (limits: ulimit -n)");
  }
}

bool Listener::introduce(Newcomer* newcomer) {
  Hello hello;
  std::memcpy(&hello, newcomer->bytes.data(), sizeof hello);
  const Address peer = peer_address(newcomer->fd.get());
  if (hello.magic != kMagic || !equal(hello.token, token_) || hello.index > static_cast<uint32_t>(settings_.streams)) {
    info(kLogNet, "NET/ccore : closed a connection from %s that does not belong to this job", text(peer).c_str());
    return false;
  }
  auto found = groups_.find(hello.connection);
  if (found == groups_.end()) {
    if (groups_.size() >= kMostGroups) return false;
    found = groups_.emplace(hello.connection, Group{{}, 0, Deadline::in_ms(settings_.connect_ms)}).first;
    found->second.sockets.resize(static_cast<size_t>(settings_.streams) + 1);
  }
  Group& group = found->second;
  if (group.sockets[hello.index]) return false;
  configure_connection(newcomer->fd.get());
  group.sockets[hello.index] = std::move(newcomer->fd);
  ++group.here;
  return true;
}

bool Listener::hear(Newcomer* newcomer, bool* heard) {
  const ssize_t got = recv(newcomer->fd.get(), newcomer->bytes.data() + newcomer->got,
                           newcomer->bytes.size() - newcomer->got, MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR) || newcomer->deadline.passed()) return false;
  if (got > 0) newcomer->got += static_cast<size_t>(got);
  *heard = newcomer->got == newcomer->bytes.size();
  return !*heard || introduce(newcomer);
}

void Listener::check_groups() {
  for (const auto& [connection, group] : groups_) {
    if (!group.deadline.passed()) continue;
    throw Error(
        CC_ERROR_TIMEOUT,
        format("only %zu of the %d sockets of a connection came within %lld s (CCORE_INIT_TIMEOUT_S); a firewall "
               "or a limit of open files on the peer may hold back the others",
               group.here, settings_.streams + 1, static_cast<long long>(settings_.connect_ms / 1000)));
  }
}

std::unique_ptr<ReceiveComm> Listener::accept() {
  take_newcomers();
  for (size_t i = 0; i < newcomers_.size();) {
    bool heard = false;
    if (hear(&newcomers_[i], &heard) && !heard) {
      ++i;
      continue;
    }
    newcomers_.erase(newcomers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (auto at = groups_.begin(); at != groups_.end(); ++at) {
    if (at->second.here < at->second.sockets.size()) continue;
    std::vector<UniqueFd> sockets = std::move(at->second.sockets);
    groups_.erase(at);
    const std::string peer = "from " + text(peer_address(sockets.front().get()));
    return std::make_unique<ReceiveComm>(std::move(sockets), settings_, peer);
  }
  check_groups();
  return nullptr;
}

}  // namespace ccore::nccl
