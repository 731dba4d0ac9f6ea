#include "net/settings.h"

#include <sched.h>

#include <algorithm>

#include "common/env.h"
#include "transport/tcp/socket.h"

namespace ccore::nccl {
namespace {

// Processors that this process may use.
int processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

}  // namespace

Settings settings_from_env() {
  const int cores = processors();
  // NCCL's own thread and a kernel's worth of interrupts need processors too.
  const int workers = std::clamp(cores / 4, 1, 4);
  Settings settings{};
  settings.streams = static_cast<int>(env_integer("CCORE_NCCL_STREAMS", workers, 0, kMostStreams));
  settings.workers =
      static_cast<int>(env_integer("CCORE_NCCL_THREADS", std::min(workers, std::max(1, settings.streams)), 1, 64));
  settings.inline_bytes = static_cast<size_t>(env_integer("CCORE_NCCL_INLINE_BYTES", 16 << 10, 0, 1 << 24));
  settings.chunk_bytes = static_cast<size_t>(env_integer("CCORE_NCCL_CHUNK_BYTES", 128 << 10, 4096, 1 << 26));
  // Polling pays where a processor is free for it.
  settings.spin_ns = 1000 * env_integer("CCORE_NCCL_SPIN_US", cores >= 8 ? 200 : 0, 0, 1000000);
  settings.speed_mbps = static_cast<int>(env_integer("CCORE_NCCL_SPEED_MBPS", 0, 0, 10000000));
  user_timeout_ms_from_env();  // throws now what each socket would
  settings.connect_ms = env_seconds_as_ms("CCORE_INIT_TIMEOUT_S", 120000);
  return settings;
}

}  // namespace ccore::nccl
