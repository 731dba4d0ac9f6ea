// How much each of several connections may hold that is not yet on the wire: the same time's worth for all. What a
// slow path holds too much, the fast ones wait for at the end; of what a fast path holds too little, it runs out
// before the sender gets the processor again.
#pragma once

#include <cstddef>
#include <vector>

namespace ccore {

class Backlog {
 public:
  explicit Backlog(size_t sockets);

  // Bytes that a socket took.
  void sent(size_t socket, size_t bytes) { counted_[socket] += bytes; }
  // All of them are full. True when the limits are others than before.
  bool full();
  // Bytes for that socket.
  size_t limit(size_t socket) const { return limits_[socket]; }

 private:
  std::vector<size_t> counted_;  // since the last change
  std::vector<size_t> limits_;
};

}  // namespace ccore
