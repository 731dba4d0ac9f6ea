#include "rendezvous/local.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "common/error.h"
#include "common/unique_fd.h"

namespace ccore {
namespace {

struct LocalName {
  sockaddr_un address{};
  socklen_t size = 0;
};

// FNV-1a: job names are longer than the name of a socket may be.
uint64_t hash_of(const std::string& text) {
  uint64_t value = 14695981039346656037u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return value;
}

LocalName name_of_job(const std::string& job) {
  const std::string text = "collective_core-" + std::to_string(getuid()) + "-" + std::to_string(hash_of(job));
  LocalName name;
  name.address.sun_family = AF_UNIX;
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());  // a leading zero: the abstract namespace
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

UniqueFd local_socket() {
  UniqueFd made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made) throw_errno("socket");
  return made;
}

void limit_waits(int fd) {
  const timeval limit{5, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

bool same_user(int fd) {
  ucred who{};
  socklen_t size = sizeof who;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == getuid();
}

std::string missing_ranks(const std::vector<bool>& came) {
  std::string list;
  for (size_t rank = 1; rank < came.size(); ++rank) {
    if (!came[rank]) list += (list.empty() ? "" : ", ") + std::to_string(rank);
  }
  return list;
}

// Answers a rank that comes again, too: it has waited in vain the first time. Two processes with one number are found
// by the rendezvous that follows.
UniqueId serve(int size, const LocalName& name, const Deadline& deadline) {
  const UniqueFd listener = local_socket();
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0) {
    if (errno == EADDRINUSE) throw Error(CC_ERROR_INVALID_USAGE, "another process of this job already is rank 0");
    throw_errno("cannot bind the socket by which the ranks of this host meet");
  }
  if (listen(listener.get(), SOMAXCONN) != 0) throw_errno("listen");
  const UniqueId made = make_unique_id();
  const cc_unique_id id = encode(made);
  std::vector<bool> came(static_cast<size_t>(size));
  came[0] = true;
  for (int left = size - 1; left > 0;) {
    if (deadline.passed()) {
      throw Error(CC_ERROR_TIMEOUT, "these ranks did not come in time: " + missing_ranks(came));
    }
    pollfd ready{listener.get(), POLLIN, 0};
    if (poll(&ready, 1, deadline.remaining_ms(1000)) <= 0) continue;
    const UniqueFd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client || !same_user(client.get())) continue;
    limit_waits(client.get());
    int32_t rank = -1;
    if (recv(client.get(), &rank, sizeof rank, MSG_WAITALL) != sizeof rank || rank < 1 || rank >= size) continue;
    if (send(client.get(), &id, sizeof id, MSG_NOSIGNAL) != sizeof id || came[static_cast<size_t>(rank)]) continue;
    came[static_cast<size_t>(rank)] = true;
    --left;
  }
  return made;
}

UniqueId ask(int rank, const LocalName& name, const Deadline& deadline) {
  while (true) {
    const UniqueFd fd = local_socket();
    limit_waits(fd.get());
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) == 0) {
      if (!same_user(fd.get())) {
        throw Error(CC_ERROR_INVALID_USAGE, "the socket by which the ranks of this host meet belongs to another user");
      }
      const auto number = static_cast<int32_t>(rank);
      cc_unique_id id;
      if (send(fd.get(), &number, sizeof number, MSG_NOSIGNAL) == sizeof number &&
          recv(fd.get(), &id, sizeof id, MSG_WAITALL) == sizeof id) {
        return decode(id);
      }
    }
    if (deadline.passed()) throw Error(CC_ERROR_TIMEOUT, "rank 0 did not come in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

UniqueId share_id_locally(int rank, int size, const std::string& job, const Deadline& deadline) {
  const LocalName name = name_of_job(job);
  return rank == 0 ? serve(size, name, deadline) : ask(rank, name, deadline);
}

}  // namespace ccore
