// The connections of one rank to all others: a control connection to each, a data connection where asked.
#pragma once

#include <string>
#include <vector>

#include "common/clock.h"
#include "common/sha256.h"
#include "rendezvous/reception.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/socket.h"

namespace ccore {

struct Mesh {
  std::vector<Connection> control;  // by rank; empty at this rank's own place
  // By rank, then by stream; empty where no data connection was asked for.
  std::vector<std::vector<Connection>> data;
};

struct MeshPlan {
  int rank = 0;
  std::vector<std::vector<Address>> rails;  // where each rank listens, one address for each of its rails
  std::vector<std::vector<size_t>> shared;  // the rails over which streams with each rank are spread; not empty
  std::vector<int> streams;        // data connections with each rank; both sides must agree
  std::vector<std::string> names;  // for error texts
};

// Connects to the lower ranks, then takes the higher ones from the reception: an order without cycles. The alarm ends it
// early.
Mesh connect_mesh(const MeshPlan& plan, Reception* reception, const Digest& secret, const Deadline& deadline,
                  const Alarm& alarm);

}  // namespace ccore
