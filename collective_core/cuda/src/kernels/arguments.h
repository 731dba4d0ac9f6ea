// What kernels take, and how they are started.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective_core/collective_core.h"
#include "protocol/layout.h"

namespace ccore_cuda {

// The same for all operations of a handle.
struct Peers {
  Control* control;
  HostWords* host;          // as the device sees it
  char* regions[kMostRanks];
  uint64_t deadline_ns;
  int rank;
  int size;
};

// How an operation that carries its data in packets is spread.
struct Spread {
  int blocks;
  uint32_t packets;            // of the whole operation
  uint32_t packets_per_block;  // at most kPacketsPerBlock
};

struct PacketReduce {
  Spread spread;
  const void* input;
  void* output;
  size_t count;   // elements of the result
  size_t stride;  // elements from what one peer gets to what the next gets: 0 for all_reduce
  cc_redop op;
  uint64_t call;
};

// Bytes of one rank, or of all, to all.
struct PacketCopy {
  Spread spread;
  const char* input;
  char* output;
  size_t bytes;   // of one rank
  size_t stride;  // bytes in the output from one rank's to the next
  int root;       // -1: each rank sends
  uint64_t call;
};

// Where peers find the buffers of this rank: addresses as each peer sees them, in the staging memory if it cannot use
// the buffer. Of an operation that has a share for each rank, the address of this peer's share.
struct Placed {
  char* staging;
  bool stages_input;
  bool stages_output;
  uint64_t input_for[kMostRanks];
  uint64_t output_for[kMostRanks];
};

struct TwoShot {
  int blocks;
  bool in_stream;  // the streams meet before and after the kernel, and stage; the kernel waits for nothing
  uint32_t stream_epoch;   // of the words that the streams have written
  bool scatters;           // the result stays with the rank that has the share
  bool streams_through;    // more data than the L2 cache holds
  const void* input;
  void* output;
  Placed placed;
  size_t count;          // elements of all shares
  size_t share;          // elements that a rank reduces; the last ranks may have fewer
  size_t stride;         // elements in the buffers from one share to the next
  size_t staged_stride;  // the same in the staging memory
  cc_redop op;
  uint64_t call;
};

// The bytes of each rank, or of root, by each rank.
struct Pull {
  int blocks;
  bool in_stream;
  uint32_t stream_epoch;
  const char* input;
  char* output;
  Placed placed;
  size_t bytes;
  size_t stride;  // in the output
  int root;       // -1: of each rank
  uint64_t call;
};

struct Push {
  int blocks;
  const char* input;
  size_t bytes;
  char* slots[kMostRanks];  // of this rank at its peers
};

struct FoldSlots {
  int blocks;
  bool in_stream;
  uint32_t stream_epoch;
  uint32_t slot;  // of an operation in streams: which of the two of each rank
  size_t slot_bytes;
  size_t packs_per_block;  // of an operation through host memory; each block has its own part of a slot
  const void* input;
  void* output;
  size_t count;
  cc_redop op;
  uint64_t call;
};

// One send or receive.
struct Transfer {
  const char* from;   // of a send
  char* to;           // of a receive; of a send that is staged, the staging memory
  uint64_t address;   // of a send: where the peer finds the data; 0: in this rank's slot for it
  size_t bytes;
  int peer;
  uint32_t number;    // of a receive in a stream
  int first_block;
  int blocks;
  bool sends;
  bool stages;
};
constexpr int kMostTransfers = 2 * kMostRanks;
struct Exchange {
  int blocks;
  int count;
  bool in_stream;     // receives only; the streams do the waiting
  size_t slot_bytes;
  Transfer transfers[kMostTransfers];
};

// The kernels of one data type.
struct ReduceKernels {
  void (*packets)(const PacketReduce&, const Peers&, cudaStream_t);
  void (*two_shot)(const TwoShot&, const Peers&, cudaStream_t);
  void (*fold_slots)(const FoldSlots&, const Peers&, cudaStream_t);
  std::vector<const void*> (*functions)(int ranks);
};

// Null for an unknown type.
const ReduceKernels* reduce_kernels(cc_dtype dtype);
extern const ReduceKernels kFloat64Kernels, kFloat32Kernels, kFloat16Kernels, kBfloat16Kernels, kInt8Kernels,
    kUint8Kernels, kInt32Kernels, kUint32Kernels, kInt64Kernels, kUint64Kernels, kFloat8E4M3Kernels, kFloat8E5M2Kernels;

void start_packet_copy(const PacketCopy& copy, const Peers& peers, cudaStream_t stream);
std::vector<const void*> copy_functions();
void start_pull(const Pull& call, const Peers& peers, cudaStream_t stream);
void start_exchange(const Exchange& call, const Peers& peers, cudaStream_t stream);
void start_push(const Push& call, const Peers& peers, cudaStream_t stream);
std::vector<const void*> pull_functions();
std::vector<const void*> exchange_functions();

// Queued after an operation whose stream has waited for its last words: fills the output unless the peers have written
// them.
struct Seal {
  const uint32_t* words[kMostRanks];
  int count;
  uint32_t expected;  // in each word
  void* output;
  size_t bytes;
  uint64_t value;
};
void start_seal(const Seal& seal, cudaStream_t stream);
std::vector<const void*> seal_functions();

// Queued before an operation, with its call.
void start_gate(uint64_t call, const Peers& peers, cudaStream_t stream);
std::vector<const void*> gate_functions();

constexpr int kTwoShotThreads = 512;
constexpr int kPullThreads = 512;
constexpr int kFoldThreads = 512;
constexpr int kPacketThreads = 512;  // besides one warp for the header
inline int threads_of(const Spread& spread) {
  const int whole_warps = (static_cast<int>(spread.packets_per_block) + 31) / 32 * 32;
  return (whole_warps < kPacketThreads ? whole_warps : kPacketThreads) + 32;
}

}  // namespace ccore_cuda
