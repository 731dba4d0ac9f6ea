#include "local_rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "launch.h"

namespace ccore_perf {
namespace {

using Clock = std::chrono::steady_clock;

std::string errno_text(int error) { return std::generic_category().message(error); }

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
};

// FNV-1a: job names are longer than the name of a socket may be.
uint64_t hash(const std::string& text) {
  uint64_t value = 14695981039346656037u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return value;
}

Name name_of(const std::string& job) {
  const std::string text = "collective_core-" + std::to_string(getuid()) + "-" + std::to_string(hash(job));
  Name name;
  name.address.sun_family = AF_UNIX;
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());  // a leading zero: the abstract namespace
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

void patience(int fd) {
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

cc_unique_id serve(int size, const Name& name, Clock::time_point deadline) {
  const Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0) {
    if (errno == EADDRINUSE) throw LaunchError("another process of this job already is rank 0");
    throw LaunchError("cannot bind the local rendezvous: " + errno_text(errno));
  }
  if (listen(listener.get(), SOMAXCONN) != 0) throw LaunchError("listen: " + errno_text(errno));
  cc_unique_id id;
  if (cc_get_unique_id(&id) != CC_SUCCESS) throw LaunchError(cc_last_error(nullptr));
  std::vector<bool> came(static_cast<size_t>(size));
  came[0] = true;
  for (int left = size - 1; left > 0;) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready{listener.get(), POLLIN, 0};
    if (ms <= 0) throw LaunchError("these ranks did not come in time: " + missing_ranks(came));
    if (poll(&ready, 1, static_cast<int>(std::min<long long>(ms, 1000))) <= 0) continue;
    const Fd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.get() < 0 || !same_user(client.get())) continue;
    patience(client.get());
    int32_t rank = -1;
    if (recv(client.get(), &rank, sizeof rank, MSG_WAITALL) != sizeof rank || rank < 1 || rank >= size) continue;
    if (came[static_cast<size_t>(rank)]) throw LaunchError("two processes say they are rank " + std::to_string(rank));
    if (send(client.get(), &id, sizeof id, MSG_NOSIGNAL) != sizeof id) continue;
    came[static_cast<size_t>(rank)] = true;
    --left;
  }
  return id;
}

cc_unique_id ask(int rank, const Name& name, Clock::time_point deadline) {
  while (true) {
    const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) == 0) {
      if (!same_user(fd.get())) throw LaunchError("the local rendezvous belongs to another user");
      const auto number = static_cast<int32_t>(rank);
      cc_unique_id id;
      if (send(fd.get(), &number, sizeof number, MSG_NOSIGNAL) == sizeof number &&
          recv(fd.get(), &id, sizeof id, MSG_WAITALL) == sizeof id) {
        return id;
      }
    }
    if (Clock::now() > deadline) throw LaunchError("rank 0 did not come in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

cc_unique_id share_id_locally(int rank, int size, const std::string& job, int64_t timeout_ms) {
  const Name name = name_of(job);
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  return rank == 0 ? serve(size, name, deadline) : ask(rank, name, deadline);
}

}  // namespace ccore_perf
