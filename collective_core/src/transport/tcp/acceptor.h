// The listening side: accepts every connection, keeps those that prove the secret and drops the rest.
#pragma once

#include <poll.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/sha256.h"
#include "common/unique_fd.h"
#include "transport/tcp/crowd.h"
#include "transport/tcp/handshake.h"

namespace ccore {

// Silent, slow or hostile clients do not delay ranks while next() is called: at most `most` connections wait for their
// proof, and the next one takes the place of one of them (crowd.h).
class Acceptor {
 public:
  Acceptor(std::vector<UniqueFd> listeners, const Digest& secret, size_t most = most_unproven());
  // The next rank; nothing when the deadline has passed, or one of the others has something to be read. Throws
  // CC_ERROR_SYSTEM when this process cannot open more connections.
  std::optional<Accepted> next(const Deadline& deadline, const std::vector<int>& others = {});
  // From now on, this many connections wait at most.
  void limit(size_t most);
  // The last process that was dropped for another version of the wire format, as words that continue a sentence about
  // missing ranks; empty without one. A stranger can claim it: a hint, not a fact.
  const std::string& other_version() const { return other_version_; }

 private:
  void hear(const std::vector<pollfd>& fds, size_t first);
  // Reads from one connection and moves the place on to the next one. True when the connection has left the crowd.
  bool hear_one(Crowd::Place* place);
  void drop_expired();
  void accept_new(int listener);
  // False while no connection has to make room.
  bool make_room();
  void be_out_of_descriptors(int error);
  int wait_ms(const Deadline& deadline);

  std::vector<UniqueFd> listeners_;
  Digest secret_;
  Crowd crowd_;
  std::deque<Accepted> proven_;
  bool crowded_ = false;  // the listeners have to wait
  std::optional<Deadline> exhausted_;  // when a lack of descriptors is an error, as no connection can make room
  std::string other_version_;
};

}  // namespace ccore
