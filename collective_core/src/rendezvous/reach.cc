#include "rendezvous/reach.h"

#include <poll.h>

#include <algorithm>
#include <limits>

namespace ccore {
namespace {

// Before another attempt. Part of it is random, so that ranks that were dropped together do not come back together.
constexpr int kLeastPauseMs = 10;
constexpr int kMostPauseMs = 80;
// For the challenge, which comes at once after the connection was accepted. A full queue of the listener may hold a
// connection up for a second, and another one finds a place sooner.
constexpr int kLeastChallengeMs = 500;
constexpr int kMostChallengeMs = 8000;

int with_jitter(int ms) {
  uint32_t random = 0;
  random_bytes(&random, sizeof random);
  return ms / 2 + static_cast<int>(random % static_cast<uint32_t>(ms));
}

// Returns at the deadline too, where introduce() throws the error.
void await_challenge(int fd, int patience_ms, const Deadline& deadline, const std::string& who, const Alarm* alarm) {
  const Deadline patience = Deadline::in_ms(patience_ms);
  pollfd ready{fd, POLLIN, 0};
  while (poll(&ready, 1, 0) <= 0 && !deadline.passed()) {
    if (patience.passed()) throw Unnoticed(who + " does not answer");
    wait_for(fd, POLLIN, deadline.remaining_ms(patience.remaining_ms(patience_ms)), alarm);
  }
}

}  // namespace

Connection reach(const Address& address, const Digest& secret, Hello hello, const Deadline& deadline,
                 const std::string& who, const Address* from, const Alarm* alarm) {
  int challenge_ms = kLeastChallengeMs;
  int pause_ms = kLeastPauseMs;
  while (true) {
    Connection connection{connect_to(address, deadline, from, alarm), {}};
    // The root may have begun long after this rank, and reports missing ranks before this rank's timeout.
    hello.timeout_ms = deadline.remaining_ms(std::numeric_limits<int>::max());
    try {
      await_challenge(connection.fd.get(), challenge_ms, deadline, who, alarm);
      connection.session = introduce(connection.fd.get(), secret, hello, deadline, who, alarm);
      return connection;
    } catch (const Unnoticed&) {
      // Another connection took its place; or a rendezvous of an earlier communicator at the same address is ending.
      if (deadline.remaining_ns() <= int64_t{2 * pause_ms} * 1000000) throw;
    }
    connection.fd.reset();
    wait_for(-1, 0, with_jitter(pause_ms), alarm);
    pause_ms = std::min(2 * pause_ms, kMostPauseMs);
    challenge_ms = std::min(2 * challenge_ms, kMostChallengeMs);
  }
}

}  // namespace ccore
