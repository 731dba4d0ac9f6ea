// Tells a host that has died or is cut off from a rank that is late and does not read.
//
// The kernel's own limit, TCP_USER_TIMEOUT, ends the connection of either: it also counts while the window of the other
// end is closed, however well its host answers. A rank may be minutes late (it compiles, it writes a checkpoint), and
// how long the others wait for it is for the deadline of their operation to say.
#pragma once

#include <optional>
#include <string>

#include "common/clock.h"

namespace ccore {

class HostSilence {
 public:
  // Of that connection, whose TCP_USER_TIMEOUT it takes away. The limit is CCORE_TCP_USER_TIMEOUT_MS.
  explicit HostSilence(int fd);

  // Bytes went one way or the other.
  void moved() { look_.reset(); }
  // None did. True if some have been on their way to that host for longer than the limit, in which it has acknowledged
  // nothing at all.
  bool is_too_long();
  // That it was, in words.
  std::string text() const;

 private:
  int fd_;
  int limit_ms_;
  std::optional<Deadline> look_;  // when to ask the kernel next; nothing has moved since it was set
};

}  // namespace ccore
