// Both ends of connections without a handshake: they hold what the handshake would have given them.
#pragma once

#include <cstddef>
#include <vector>

#include "transport/tcp/connection.h"

namespace test {

struct SessionPair {
  ccore::Session connecting;
  ccore::Session accepting;
};
// The same for the same number.
SessionPair sessions(int number);

struct Ends {
  std::vector<ccore::Connection> first;
  std::vector<ccore::Connection> second;
};
// Local sockets instead of TCP ones: a link cannot tell, and their buffers can be tiny. Their sessions are numbered
// from 0.
Ends connections(size_t count, int buffer_bytes);

}  // namespace test
