// Both ends of connections in this process, and messages between them, driven as NCCL's proxy thread does.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "any_net.h"

namespace ccore::nccl {

struct Connection {
  void* send_comm = nullptr;
  void* receive_comm = nullptr;
};

// Throws std::runtime_error for a result other than success, or after `seconds`.
Connection connect_pair(const AnyNet& net, int device = 0, double seconds = 10);
void close_pair(const AnyNet& net, const Connection& connection);

double seconds_now();
// The test logger: keeps the last warning.
void keep_warning(LogLevel level, unsigned long subsystems, const char* file, int line, const char* pattern, ...);
const char* last_warning();

}  // namespace ccore::nccl
