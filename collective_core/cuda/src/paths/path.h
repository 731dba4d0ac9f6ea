// What a path needs of its handle, and the operation that it is given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/arguments.h"
#include "memory/buffers.h"
#include "memory/staging.h"
#include "service.h"
#include "tuning/way.h"

namespace ccore_cuda {

// From it an operation is large: it may run beside the program's kernels, and takes no more of the GPU than it needs.
constexpr size_t kLargeBytes = size_t{4} << 20;

struct PathContext {
  Peers peers;
  Buffers* buffers;
  Staging* staging;
  Service* service;
  size_t most_staging_bytes;
  size_t slot_bytes;    // of a slot of the region; 0: there are none
  size_t packet_bytes;  // larger messages use peers' buffers, where the path has them
  int blocks;           // of a kernel that waits, at most
  int blocks_of_large;  // the same from kLargeBytes on
  bool maps_buffers;
  bool flushes_waits;   // of streams for words that another GPU writes

  StreamWaits* waits;   // null if no stream waits

  // Where streams of `owner` wait for `peer`, and what the peer has written for its kernels.
  StreamWaits* waits_for(int owner, int peer) const { return waits_of(waits, peers.size, owner, peer); }
  StreamLine* line(int owner, int peer) const { return &part_of(peers.regions[owner], peer)->stream; }
};

struct ReduceCall {
  const char* send;
  char* recv;
  size_t count;
  size_t element;
  cc_dtype dtype;
  cc_redop op;
  cudaStream_t stream;
  Way way;
};
struct CopyCall {
  const char* send;
  char* recv;
  size_t bytes;  // of one rank
  int root;      // -1: all_gather
  cc_dtype dtype;
  size_t count;
  cudaStream_t stream;
  Way way;
};

// How an operation with a share for each rank lies in its buffers, in bytes.
struct ShareLayout {
  size_t whole;          // of a buffer
  size_t stride;         // from one share to the next
  size_t staged_stride;  // the same in the staging memory: a multiple of 16
};

// In place where the peers can use the buffers, else in the staging memory. output may be null.
Placed place_shares(const PathContext& context, const char* input, char* output, const ShareLayout& layout);
// The same for an operation in which all peers read the whole input.
Placed place_input(const PathContext& context, const char* input, size_t bytes);

// The part of an all_reduce or, with a stride, of a reduce_scatter that fits into the staging memory.
TwoShot all_reduce_part(const PathContext& context, const ReduceCall& call, size_t begin, size_t count);
TwoShot reduce_scatter_part(const PathContext& context, const ReduceCall& call, size_t begin, size_t count);
Pull pull_part(const PathContext& context, const CopyCall& call, size_t begin, size_t bytes);

// The bytes of a share of an operation that stages the shares of all ranks.
inline size_t most_of_share(const PathContext& context) {
  return context.most_staging_bytes / static_cast<size_t>(context.peers.size) / 16 * 16;
}

inline size_t whole_packs(size_t bytes) { return (bytes + 15) / 16 * 16; }

inline int blocks_for(size_t packs, int threads, int most) {
  const size_t wanted = (packs + static_cast<size_t>(threads) - 1) / static_cast<size_t>(threads);
  return wanted < 1 ? 1 : wanted > static_cast<size_t>(most) ? most : static_cast<int>(wanted);
}

}  // namespace ccore_cuda
