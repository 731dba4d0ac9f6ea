// How many blocks a grid of a selection has.
#pragma once

#include <algorithm>

#include "error.h"

namespace ccore_cuda::topk {

constexpr unsigned kMostBlocks = 1024;  // of a grid

inline unsigned multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "asking for the multiprocessors");
  return static_cast<unsigned>(count);
}

inline unsigned grid_of(int blocks_per_multiprocessor) {
  return std::min(multiprocessors() * static_cast<unsigned>(blocks_per_multiprocessor), kMostBlocks);
}

}  // namespace ccore_cuda::topk
