#include "sessions.h"

#include <sys/socket.h>

#include "expect.h"

namespace test {

SessionPair sessions(int number) {
  const ccore::Digest key = ccore::sha256(&number, sizeof number);
  return SessionPair{ccore::Session{key, true}, ccore::Session{key, false}};
}

Ends connections(size_t count, int buffer_bytes) {
  Ends ends;
  for (size_t i = 0; i < count; ++i) {
    int fds[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    for (const int fd : fds) {
      setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    }
    const SessionPair pair = sessions(static_cast<int>(i));
    ends.first.push_back(ccore::Connection{ccore::UniqueFd(fds[0]), pair.connecting});
    ends.second.push_back(ccore::Connection{ccore::UniqueFd(fds[1]), pair.accepting});
  }
  return ends;
}

}  // namespace test
