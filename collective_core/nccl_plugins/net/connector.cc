#include "net/connector.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "common/error.h"
#include "transport/tcp/socket.h"

namespace ccore::nccl {

Connector::Connector(const Handle& handle, const Settings& settings)
    : handle_(handle), settings_(settings), deadline_(Deadline::in_ms(settings.connect_ms)) {
  if (handle.magic != kMagic || handle.streams > kMostStreams) {
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                "the peer does not use this version of the plugin; set the same NCCL_NET_PLUGIN, and install the same "
                "version of collective_core, on every node");
  }
  fill_random(&connection_, sizeof connection_);
  for (uint32_t i = 0; i <= handle.streams; ++i) sockets_.push_back(Socket{start_connect(handle.address), false, 0});
}

bool Connector::advance(Socket* socket, uint32_t index) {
  if (!socket->connected) {
    pollfd ready{socket->fd.get(), POLLOUT, 0};
    if (poll(&ready, 1, 0) <= 0) return false;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket->fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      throw Error(CC_ERROR_REMOTE, "connect to " + text(handle_.address) + ": " + errno_text(error) +
                                       "; check that the peer's process runs, that no firewall is in between, and that "
                                       "NCCL_SOCKET_IFNAME names an interface that both nodes reach");
    }
    socket->connected = true;
    configure_connection(socket->fd.get());
  }
  const Hello hello{kMagic, handle_.token, connection_, index, 0};
  const auto* bytes = reinterpret_cast<const char*>(&hello);
  const ssize_t sent = send(socket->fd.get(), bytes + socket->sent, sizeof hello - socket->sent, MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    throw Error(CC_ERROR_REMOTE, text(handle_.address) + " closed the connection: " + errno_text(errno));
  }
  if (sent > 0) socket->sent += static_cast<size_t>(sent);
  return socket->sent == sizeof hello;
}

std::unique_ptr<SendComm> Connector::progress() {
  bool all = true;
  for (uint32_t i = 0; i < sockets_.size(); ++i) {
    if (sockets_[i].sent < sizeof(Hello) && !advance(&sockets_[i], i)) all = false;
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
