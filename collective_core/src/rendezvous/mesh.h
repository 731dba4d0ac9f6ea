// The connections of one rank to all others: a control connection to each, a data connection where asked.
#pragma once

#include <string>
#include <vector>

#include "common/clock.h"
#include "common/sha256.h"
#include "common/unique_fd.h"
#include "transport/tcp/socket.h"

namespace ccore {

struct Mesh {
  std::vector<UniqueFd> control;  // by rank; empty at this rank's own place
  std::vector<UniqueFd> data;     // by rank; empty where no data connection was asked for
};

struct MeshPlan {
  int rank = 0;
  std::vector<Address> addresses;  // where each rank listens
  std::vector<bool> wants_data;    // by rank; both sides must agree
  std::vector<std::string> names;  // for error texts
};

// Connects to the lower ranks, then accepts the higher ones: an order without cycles.
Mesh connect_mesh(const MeshPlan& plan, UniqueFd listener, const Digest& secret, const Deadline& deadline);

}  // namespace ccore
