// What the environment sets for the net plugin.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccore::nccl {

constexpr int kMostStreams = 15;  // besides the lead socket

struct Settings {
  int streams;  // CCORE_NCCL_STREAMS: sockets of a connection besides the lead socket, each served by a thread
  int workers;  // CCORE_NCCL_THREADS: threads of the process that serve them
  size_t inline_bytes;  // CCORE_NCCL_INLINE_BYTES: a message of up to this size takes the lead socket as a whole
  size_t chunk_bytes;  // CCORE_NCCL_CHUNK_BYTES: the most that a socket takes at once of a larger one
  int64_t spin_ns;  // CCORE_NCCL_SPIN_US: how long an idle thread polls before it sleeps
  int speed_mbps;  // CCORE_NCCL_SPEED_MBPS: the speed of every interface for NCCL; 0: what the kernel reports
  int64_t connect_ms;  // CCORE_INIT_TIMEOUT_S
};

// Throws ccore::Error for a value out of range.
Settings settings_from_env();

}  // namespace ccore::nccl
