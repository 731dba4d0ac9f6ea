#include "memory/descriptor_channel.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "clock.h"

namespace ccore_cuda {
namespace {

constexpr int kSocketType = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
// A process that connects and shows nothing holds up the others no longer.
constexpr int64_t kGreetingLimitNs = 1000000000;

struct Greeting {
  unsigned char token[16];
  int32_t rank;
};

[[noreturn]] void fail(const std::string& what) {
  throw ChannelError(what + ": " + std::generic_category().message(errno));
}

void fill_randomly(void* bytes, size_t size) {
  if (getrandom(bytes, size, 0) != static_cast<ssize_t>(size)) fail("getrandom");
}

// The name follows a zero byte, so that it is in no file system.
socklen_t fill(const char* name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t length = std::min(std::strlen(name), sizeof address->sun_path - 1);
  std::memcpy(address->sun_path + 1, name, length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

bool is_of_this_user(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

// False at the deadline.
bool wait_for(int socket, short events, int64_t deadline_ns) {
  while (true) {
    const int64_t left_ns = deadline_ns - now_ns();
    if (left_ns <= 0) return false;
    pollfd one{socket, events, 0};
    const int found = poll(&one, 1, static_cast<int>(std::min<int64_t>(left_ns / 1000000 + 1, 1000)));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) fail("poll");
  }
}

Descriptor connect_to(int peer, const ChannelAddress& address, int64_t deadline_ns) {
  Descriptor socket(::socket(AF_UNIX, kSocketType, 0));
  if (socket.number() < 0) fail("making a socket");
  sockaddr_un name{};
  const socklen_t bytes = fill(address.name, &name);
  const std::string what = "connecting to rank " + std::to_string(peer);
  while (connect(socket.number(), reinterpret_cast<const sockaddr*>(&name), bytes) != 0) {
    // The peer's queue of connections is full.
    if (errno != EAGAIN && errno != EINTR) fail(what);
    if (now_ns() > deadline_ns) throw ChannelError(what + ": its queue of connections stayed full");
    usleep(1000);
  }
  if (!is_of_this_user(socket.number())) throw ChannelError(what + ": it is a process of another user");
  return socket;
}

void greet(int socket, const ChannelAddress& address, int rank) {
  Greeting greeting{};
  std::memcpy(greeting.token, address.token, sizeof greeting.token);
  greeting.rank = rank;
  if (send(socket, &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting) fail("greeting a peer");
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

DescriptorChannel::Sent DescriptorChannel::send(const DescriptorMessage& message,
                                                const std::vector<Descriptor>& descriptors) const {
  iovec data{const_cast<DescriptorMessage*>(&message), sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  for (size_t i = 0; i < descriptors.size(); ++i) {
    const int number = descriptors[i].number();
    std::memcpy(CMSG_DATA(rights) + i * sizeof number, &number, sizeof number);
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(socket_.number(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == sizeof message) return Sent::kDone;
  // ETOOMANYREFS: this user has as many descriptors under way as a process may have open.
  return sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS) ? Sent::kFull : Sent::kFailed;
}

std::optional<ReceivedDescriptors> DescriptorChannel::receive() const {
  ReceivedDescriptors received{};
  iovec data{&received.message, sizeof received.message};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t bytes = -1;
  do {
    bytes = recvmsg(socket_.number(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  if (bytes <= 0) return std::nullopt;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof number, sizeof number);
      received.descriptors.emplace_back(number);
    }
  }
  const bool is_whole = bytes == sizeof received.message && (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 &&
                        received.descriptors.size() == received.message.count;
  if (!is_whole) received.descriptors.clear();
  return received;
}

ChannelListener::ChannelListener() {
  unsigned char random[12];
  fill_randomly(random, sizeof random);
  fill_randomly(address_.token, sizeof address_.token);
  int at = std::snprintf(address_.name, sizeof address_.name, "ccore-");
  for (const unsigned char one : random) at += std::snprintf(address_.name + at, 3, "%02x", one);
  socket_ = Descriptor(::socket(AF_UNIX, kSocketType, 0));
  if (socket_.number() < 0) fail("making a socket");
  sockaddr_un name{};
  const socklen_t bytes = fill(address_.name, &name);
  if (bind(socket_.number(), reinterpret_cast<const sockaddr*>(&name), bytes) != 0) fail("naming a socket");
  if (listen(socket_.number(), 64) != 0) fail("listening at a socket");
}

std::vector<DescriptorChannel> ChannelListener::connect_all(int rank, const std::vector<ChannelAddress>& addresses,
                                                            int64_t limit_ns) const {
  const int64_t deadline_ns = now_ns() + limit_ns;
  const int size = static_cast<int>(addresses.size());
  std::vector<Descriptor> sockets(addresses.size());
  for (int peer = 0; peer < rank; ++peer) {
    const ChannelAddress& theirs = addresses[static_cast<size_t>(peer)];
    Descriptor& socket = sockets[static_cast<size_t>(peer)];
    socket = connect_to(peer, theirs, deadline_ns);
    greet(socket.number(), theirs, rank);
  }
  for (int missing = size - rank - 1; missing > 0;) {
    if (!wait_for(socket_.number(), POLLIN, deadline_ns)) {
      for (int peer = rank + 1; peer < size; ++peer) {
        if (sockets[static_cast<size_t>(peer)].number() >= 0) continue;
        throw ChannelError("rank " + std::to_string(peer) + " did not connect by the deadline");
      }
    }
    Descriptor socket(accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.number() < 0) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) continue;
      fail("accepting a connection");
    }
    Greeting greeting{};
    if (!is_of_this_user(socket.number()) ||
        !wait_for(socket.number(), POLLIN, std::min(deadline_ns, now_ns() + kGreetingLimitNs)) ||
        recv(socket.number(), &greeting, sizeof greeting, MSG_DONTWAIT) != sizeof greeting ||
        std::memcmp(greeting.token, address_.token, sizeof greeting.token) != 0 || greeting.rank <= rank ||
        greeting.rank >= size || sockets[static_cast<size_t>(greeting.rank)].number() >= 0) {
      continue;  // a stranger
    }
    sockets[static_cast<size_t>(greeting.rank)] = std::move(socket);
    --missing;
  }
  std::vector<DescriptorChannel> channels;
  for (Descriptor& socket : sockets) channels.emplace_back(std::move(socket));
  return channels;
}

}  // namespace ccore_cuda
