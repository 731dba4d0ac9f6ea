// Connections that have yet to prove the secret, and the choice of the one that makes room for the next.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>

#include "transport/tcp/handshake.h"
#include "transport/tcp/socket.h"

namespace ccore {

class Crowd {
 public:
  // A host can use every address of its /64 of IPv6, so that these count as one.
  using Host = std::array<unsigned char, 16>;
  struct Member {
    Applicant applicant;
    Host host;
    int64_t since_ns;
  };
  using Place = std::list<Member>::iterator;

  // A rank proves itself within this time, in which a connection keeps its place. It is shorter in a small crowd, which
  // otherwise would take a queue of strangers too slowly.
  static constexpr int64_t kLeastNs = 20 * 1000000;
  static constexpr int64_t kLeastNsEach = 50 * 1000;
  // In a full crowd, older connections make room first; of the younger ones, those of the host with the most.
  static constexpr int64_t kLongNs = 500 * 1000000;

  explicit Crowd(size_t most) { limit(most); }

  void limit(size_t most) {
    most_ = most;
    least_ns_ = std::min(kLeastNs, kLeastNsEach * static_cast<int64_t>(most));
  }

  void add(Applicant applicant, const Address& from, int64_t now_ns);
  Place erase(Place place);
  Place begin() { return members_.begin(); }
  Place end() { return members_.end(); }
  size_t size() const { return members_.size(); }
  bool full() const { return members_.size() >= most_; }
  bool too_large() const { return members_.size() > most_; }

  // The connection that makes room: the oldest of all if older than kLongNs, else the oldest of the host with the most.
  // Nothing while that one is younger than the least time.
  std::optional<Place> victim(int64_t now_ns);
  // When there will be a victim. The crowd must not be empty.
  int64_t next_victim_ns();

 private:
  Place oldest_of_largest();

  size_t most_ = 0;
  int64_t least_ns_ = 0;
  std::list<Member> members_;  // the oldest first
  std::map<Host, size_t> counts_;
};

// The size of a crowd that leaves most descriptors of the process (RLIMIT_NOFILE) to other uses.
size_t most_unproven();

}  // namespace ccore
