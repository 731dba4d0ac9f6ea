// The clock of the host.
#pragma once

#include <time.h>

#include <cstdint>

namespace ccore_cuda {

inline int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

}  // namespace ccore_cuda
