#include "net/connector.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "common/error.h"
#include "transport/tcp/socket.h"

namespace ccore::nccl {
namespace {

// For the listener to accept the connection. Its queue may be full of strangers, or the peer may not be at it yet.
constexpr int kLeastPatienceMs = 500;
constexpr int kMostPatienceMs = 8000;
constexpr int kPauseMs = 20;

}  // namespace

Connector::Connector(const Handle& handle, const Settings& settings)
    : handle_(handle), settings_(settings), deadline_(Deadline::in_ms(settings.connect_ms)) {
  if (handle.magic != kMagic || handle.streams > kMostStreams) {
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                "the peer does not use this version of the plugin; set the same NCCL_NET_PLUGIN, and install the same "
                "version of collective_core, on every node");
  }
  hello_.purpose = Purpose::nccl;
  random_bytes(&hello_.from, sizeof hello_.from);
  random_bytes(&hello_.to, sizeof hello_.to);
  sockets_.resize(handle.streams + 1);
  for (Socket& socket : sockets_) begin(&socket);
}

void Connector::begin(Socket* socket) {
  socket->fd = start_connect(handle_.address);
  socket->patience_ms = std::clamp(2 * socket->patience_ms, kLeastPatienceMs, kMostPatienceMs);
  socket->patience = Deadline::in_ms(socket->patience_ms);
}

void Connector::give_up(Socket* socket) {
  socket->introduction.reset();
  reset_on_close(socket->fd.get());
  socket->fd.reset();
  socket->patience = Deadline::in_ms(kPauseMs);
}

void Connector::advance(Socket* socket, int32_t index) {
  if (!socket->fd) {
    if (socket->patience.passed()) begin(socket);
    return;
  }
  if (!socket->introduction) {
    pollfd ready{socket->fd.get(), POLLOUT, 0};
    if (poll(&ready, 1, 0) <= 0) {
      if (socket->patience.passed()) give_up(socket);
      return;
    }
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket->fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      throw Error(CC_ERROR_REMOTE, "connect to " + text(handle_.address) + ": " + errno_text(error) +
                                       "; check that the peer's process runs, that no firewall is in between, and that "
                                       "NCCL_SOCKET_IFNAME names an interface that both nodes reach");
    }
    configure_connection(socket->fd.get());
    hello_.stream = index;
    socket->introduction.emplace(socket->fd.get(), handle_.secret, hello_, text(handle_.address));
  }
  try {
    socket->done = socket->introduction->advance().has_value();
    if (!socket->done && !socket->introduction->noticed() && socket->patience.passed()) give_up(socket);
  } catch (const Unnoticed&) {
    give_up(socket);  // another connection took its place
  }
}

std::unique_ptr<SendComm> Connector::progress() {
  bool all = true;
  for (size_t i = 0; i < sockets_.size(); ++i) {
    if (!sockets_[i].done) advance(&sockets_[i], static_cast<int32_t>(i));
    all = all && sockets_[i].done;
  }
  if (!all) {
    if (!deadline_.passed()) return nullptr;
    throw Error(CC_ERROR_TIMEOUT,
                format("connect to %s: no answer within %lld s (CCORE_INIT_TIMEOUT_S); check that no firewall is in "
                       "between and that NCCL_SOCKET_IFNAME names an interface that both nodes reach",
                       text(handle_.address).c_str(), static_cast<long long>(settings_.connect_ms / 1000)));
  }
  std::vector<UniqueFd> sockets;
  for (Socket& socket : sockets_) sockets.push_back(std::move(socket.fd));
  return std::make_unique<SendComm>(std::move(sockets), settings_, "to " + text(handle_.address));
}

}  // namespace ccore::nccl
