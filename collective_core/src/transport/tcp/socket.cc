#include "transport/tcp/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "common/env.h"
#include "common/error.h"

namespace ccore {
namespace {

// How long a port that is to be taken over may still be listened on: by the rendezvous of the communicator before this
// one, whose last rank has yet to leave.
constexpr int64_t kTakeOverMs = 2000;

// Of one attempt to connect. A listener whose queue is full drops the request, and the kernel repeats it only after a
// second; another attempt finds a place sooner. The time doubles for networks that need longer.
constexpr int kLeastPatienceMs = 100;
constexpr int kMostPatienceMs = 5000;

struct Raw {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Raw raw_from(const Address& address) {
  Raw raw;
  if (address.family == AF_INET6) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&raw.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    v6->sin6_scope_id = address.scope;
    std::memcpy(&v6->sin6_addr, address.host, 16);
    raw.size = sizeof *v6;
  } else {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&raw.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
    std::memcpy(&v4->sin_addr, address.host, 4);
    raw.size = sizeof *v4;
  }
  return raw;
}

void set_option(int fd, int level, int name, int value) {
  if (setsockopt(fd, level, name, &value, sizeof value) != 0) throw_errno("setsockopt");
}

// Sockets of other kinds, which tests have, do not know it.
void set_tcp_option_if_tcp(int fd, int name, int value) {
  if (setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value) == 0) return;
  if (errno != EOPNOTSUPP && errno != ENOPROTOOPT) throw_errno("setsockopt");
}

// To a port from which connections leave too, the kernel may connect a socket with itself.
bool with_itself(int fd) {
  const Address own = local_address(fd);
  const Address peer = peer_address(fd);
  return own.port == peer.port && std::memcmp(own.host, peer.host, sizeof own.host) == 0;
}

// Worth another attempt: the other side may not have started yet, or connections of others use all local ports.
bool passing(int error) {
  return error == ECONNREFUSED || error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ||
         error == ECONNRESET || error == EAGAIN || error == EHOSTDOWN || error == EADDRNOTAVAIL;
}

// 0 or the errno of the attempt; ETIMEDOUT at the end of its patience.
int try_connect(int fd, const Address& address, const Deadline& patience, const Alarm* alarm) {
  const Raw raw = raw_from(address);
  if (connect(fd, raw.get(), raw.size) != 0) {
    if (errno != EINPROGRESS) return errno;
    pollfd ready{fd, POLLOUT, 0};
    // A signal ends a wait before its time. On a way that takes longer than a timer of the program's does, no attempt
    // would come to its end.
    while (poll(&ready, 1, 0) <= 0) {
      if (patience.passed()) return ETIMEDOUT;
      wait_for(fd, POLLOUT, patience.remaining_ms(kMostPatienceMs), alarm);
    }
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return error;
  }
  return with_itself(fd) ? ECONNREFUSED : 0;
}

}  // namespace

Address address_from(const sockaddr* raw) {
  Address address;
  if (raw->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, raw, sizeof v4);
    address.port = ntohs(v4.sin_port);
    std::memcpy(address.host, &v4.sin_addr, 4);
  } else if (raw->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, raw, sizeof v6);
    address.port = ntohs(v6.sin6_port);
    address.scope = v6.sin6_scope_id;
    std::memcpy(address.host, &v6.sin6_addr, 16);
  } else {
    return address;
  }
  address.family = raw->sa_family;
  return address;
}

Address resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) throw Error(CC_ERROR_SYSTEM, "cannot resolve " + host + ": " + gai_strerror(error));
  Address address;
  // IPv4 first: it is what an interface has when it has only one.
  for (const addrinfo* at = found; at; at = at->ai_next) {
    if (address.family == 0 || (address.family == AF_INET6 && at->ai_family == AF_INET)) {
      address = address_from(at->ai_addr);
    }
  }
  freeaddrinfo(found);
  address.port = static_cast<uint16_t>(port);
  return address;
}

std::string host_text(const Address& address) {
  char host[INET6_ADDRSTRLEN] = "?";
  if (address.family != 0) inet_ntop(address.family, address.host, host, sizeof host);
  return host;
}

std::string text(const Address& address) {
  const std::string port = std::to_string(address.port);
  return address.family == AF_INET6 ? "[" + host_text(address) + "]:" + port : host_text(address) + ":" + port;
}

bool is_loopback(const Address& address) {
  if (address.family == AF_INET) return address.host[0] == 127;
  unsigned char one[16] = {};
  one[15] = 1;
  return address.family == AF_INET6 && std::memcmp(address.host, one, 16) == 0;
}

void wait_for(int fd, short events, int ms, const Alarm* alarm) {
  pollfd fds[2] = {{fd, events, 0}, {alarm ? alarm->fd : -1, POLLIN, 0}};  // poll passes over -1
  poll(fds, 2, ms);
  if (alarm && fds[1].revents != 0) alarm->tell();
}

UniqueFd listen_on(const Address& address, bool reuse) {
  UniqueFd fd(socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw_errno("socket");
  if (reuse) set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  const Raw raw = raw_from(address);
  const Deadline patience = Deadline::in_ms(reuse ? kTakeOverMs : 0);
  while (bind(fd.get(), raw.get(), raw.size) != 0) {
    if (errno != EADDRINUSE || patience.passed()) throw_errno("bind to " + text(address));
    wait_for(-1, 0, 10, nullptr);
  }
  if (listen(fd.get(), SOMAXCONN) != 0) throw_errno("listen on " + text(address));
  return fd;
}

Address local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) throw_errno("getsockname");
  return address_from(reinterpret_cast<const sockaddr*>(&storage));
}

Address peer_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return Address();  // it is gone
  return address_from(reinterpret_cast<const sockaddr*>(&storage));
}

int user_timeout_ms_from_env() {
  return static_cast<int>(env_integer("CCORE_TCP_USER_TIMEOUT_MS", 20000, 1000, 3600000));
}

void configure_connection(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) throw_errno("fcntl");
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // A host that vanished without a FIN is noticed after this long, whether bytes are in flight or not.
  const int ms = user_timeout_ms_from_env();
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, ms / 4000));
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, ms / 6000));
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, ms);
}

void reset_on_close(int fd) {
  const linger at_once{1, 0};
  // Best effort: without the option the connection ends in order.
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

void drop_user_timeout(int fd) { set_tcp_option_if_tcp(fd, TCP_USER_TIMEOUT, 0); }

void limit_unsent(int fd, size_t bytes) { set_tcp_option_if_tcp(fd, TCP_NOTSENT_LOWAT, static_cast<int>(bytes)); }

UniqueFd start_connect(const Address& address) {
  UniqueFd fd(socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw_errno("socket");
  const Raw raw = raw_from(address);
  if (connect(fd.get(), raw.get(), raw.size) != 0 && errno != EINPROGRESS) throw_errno("connect to " + text(address));
  return fd;
}

UniqueFd connect_to(const Address& address, const Deadline& deadline, const Address* from, const Alarm* alarm) {
  int pause_ms = 5;
  int patience_ms = kLeastPatienceMs;
  while (true) {
    UniqueFd fd(socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) throw_errno("socket");
    if (from) {
      Address any_port = *from;
      any_port.port = 0;
      const Raw raw = raw_from(any_port);
      if (bind(fd.get(), raw.get(), raw.size) != 0) throw_errno("bind to " + host_text(any_port));
    }
    const int error = try_connect(fd.get(), address, Deadline::in_ms(deadline.remaining_ms(patience_ms)), alarm);
    if (error == 0) {
      configure_connection(fd.get());
      return fd;
    }
    if (error == ETIMEDOUT) patience_ms = std::min(patience_ms * 2, kMostPatienceMs);
    const std::string what = "connect to " + text(address) + ": " + errno_text(error);
    if (!passing(error)) throw Error(CC_ERROR_SYSTEM, what);
    if (deadline.remaining_ns() <= int64_t{pause_ms} * 1000000) throw Error(CC_ERROR_TIMEOUT, what);
    wait_for(-1, 0, pause_ms, alarm);
    pause_ms = std::min(pause_ms * 2, 200);
  }
}

void send_all(int fd, const void* data, size_t size, const Deadline& deadline, const std::string& who) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      at += sent;
      size -= static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EINTR) {
      pollfd ready{fd, POLLOUT, 0};
      if (deadline.passed()) throw Error(CC_ERROR_TIMEOUT, who + " takes no data");
      poll(&ready, 1, deadline.remaining_ms(1000));
    } else if (errno == EPIPE || errno == ECONNRESET || errno == ETIMEDOUT) {
      throw ConnectionReset(who + " closed the connection");
    } else {
      throw_errno("send to " + who);
    }
  }
}

size_t recv_now(int fd, void* data, size_t size, const std::string& who) {
  const ssize_t got = recv(fd, data, size, MSG_DONTWAIT);
  if (got > 0) return static_cast<size_t>(got);
  if (got == 0) throw Error(CC_ERROR_REMOTE, who + " closed the connection");
  if (errno == EAGAIN || errno == EINTR) return 0;
  if (errno == ECONNRESET || errno == EPIPE || errno == ETIMEDOUT) {
    throw ConnectionReset(who + " closed the connection");
  }
  throw_errno("recv from " + who);
}

void recv_all(int fd, void* data, size_t size, const Deadline& deadline, const std::string& who, const Alarm* alarm) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const size_t got = recv_now(fd, at, size, who);
    at += got;
    size -= got;
    if (got > 0) continue;
    if (deadline.passed()) throw Error(CC_ERROR_TIMEOUT, "no answer from " + who);
    wait_for(fd, POLLIN, deadline.remaining_ms(1000), alarm);
  }
}

}  // namespace ccore
