// What a path needs of its handle, and the operation that it is given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/arguments.h"
#include "memory/buffers.h"
#include "memory/staging.h"
#include "service.h"

namespace ccore_cuda {

struct PathContext {
  Peers peers;
  Buffers* buffers;
  Staging* staging;
  Service* service;
  HostWords* words;  // as the host sees them
  size_t most_staging_bytes;
  size_t packet_bytes;  // larger messages use peers' buffers, where the path has them
  int blocks;           // of a kernel that waits, at most
  bool maps_buffers;
};

struct ReduceCall {
  const char* send;
  char* recv;
  size_t count;
  size_t element;
  cc_dtype dtype;
  cc_redop op;
  cudaStream_t stream;
};
struct CopyCall {
  const char* send;
  char* recv;
  size_t bytes;  // of one rank
  int root;      // -1: all_gather
  cc_dtype dtype;
  size_t count;
  cudaStream_t stream;
};

// Where the buffers of an operation are, for the peers: in place, or staged.
struct Placed {
  uint64_t input_at;
  uint64_t output_at;
  char* staging;
  bool stages_input;
  bool stages_output;
};
Placed place(const PathContext& context, const void* input, void* output, size_t bytes);

// A share of a two-shot operation: whole packs of 16 bytes.
inline size_t share_of(size_t count, size_t element, int ranks) {
  const size_t pack = 16 / element;
  const size_t share = (count + static_cast<size_t>(ranks) - 1) / static_cast<size_t>(ranks);
  return (share + pack - 1) / pack * pack;
}

}  // namespace ccore_cuda
