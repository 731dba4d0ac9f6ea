// Sockets: addresses, non-blocking listen and connect, whole-message send and receive with a deadline.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <string>

#include "common/clock.h"
#include "common/error.h"
#include "common/unique_fd.h"

namespace ccore {

// An IPv4 or IPv6 address with a port, in a form that can be sent as it is.
struct Address {
  uint16_t family = 0;  // AF_INET or AF_INET6; 0: none
  uint16_t port = 0;
  uint32_t scope = 0;
  unsigned char host[16] = {};
};

Address address_from(const sockaddr* address);
// Numeric or by name; throws CC_ERROR_SYSTEM if it cannot be resolved.
Address resolve(const std::string& host, int port);
std::string host_text(const Address& address);
std::string text(const Address& address);  // host:port
bool is_loopback(const Address& address);

// Binds and listens; port 0 takes a free one. reuse: take over a port whose last connections linger, and wait for two
// seconds while it is still listened on.
UniqueFd listen_on(const Address& address, bool reuse);
Address local_address(int fd);

Address peer_address(int fd);

// What else ends a wait: as soon as there is something to be read from fd, or it was closed, tell() throws why.
struct Alarm {
  int fd = -1;
  std::function<void()> tell;
};

// Until the socket (-1: none) is ready, or ms have passed, or the alarm goes off, which throws. A signal may end it too.
void wait_for(int fd, short events, int ms, const Alarm* alarm);

// A socket that begins to connect: poll() reports it writable when SO_ERROR has the outcome.
UniqueFd start_connect(const Address& address);

// Tries again until the deadline while no process listens there yet. from: the own address to use, null for any.
UniqueFd connect_to(const Address& address, const Deadline& deadline, const Address* from = nullptr,
                    const Alarm* alarm = nullptr);
// CCORE_TCP_USER_TIMEOUT_MS. Throws CC_ERROR_INVALID_ARGUMENT for a value out of range.
int user_timeout_ms_from_env();
// Non-blocking, no delay, keepalive, user timeout: for every connection made or accepted.
void configure_connection(int fd);
// For a connection that its other end may leave unread for long (host_silence.h). No effect on other sockets than TCP
// ones.
void drop_user_timeout(int fd);
// The socket takes no more while it holds this many bytes that are not yet on the wire. No effect on other sockets
// than TCP ones.
void limit_unsent(int fd, size_t bytes);

// Closing it resets the connection: unsent bytes are discarded, and the kernel keeps no state of it.
void reset_on_close(int fd);

// The connection ended by a reset or a timeout of the kernel, not in order. CC_ERROR_REMOTE.
class ConnectionReset : public Error {
 public:
  explicit ConnectionReset(const std::string& text) : Error(CC_ERROR_REMOTE, text) {}
};

// Throw CC_ERROR_TIMEOUT, CC_ERROR_REMOTE (closed by the other side; ConnectionReset if not in order) or CC_ERROR_SYSTEM; `who` goes in the
// text.
void send_all(int fd, const void* data, size_t size, const Deadline& deadline, const std::string& who);
// Returns how many bytes it has read, 0 if none has arrived yet. size is at least 1. Throws as recv_all().
size_t recv_now(int fd, void* data, size_t size, const std::string& who);
void recv_all(int fd, void* data, size_t size, const Deadline& deadline, const std::string& who,
              const Alarm* alarm = nullptr);

}  // namespace ccore
