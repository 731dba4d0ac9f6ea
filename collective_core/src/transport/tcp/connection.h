// A TCP connection whose two ends have proven the communicator's secret to each other.
#pragma once

#include "common/unique_fd.h"
#include "transport/seal.h"

namespace ccore {

struct Connection {
  UniqueFd fd;
  Session session;

  explicit operator bool() const { return static_cast<bool>(fd); }
};

}  // namespace ccore
