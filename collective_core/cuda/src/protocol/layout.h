// What lies where in the memory that peers write: the region of a rank.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/flags.h"

namespace ccore_cuda {

constexpr int kMostRanks = 16;
constexpr int kMostBlocks = 64;
constexpr int kPacketsPerBlock = 1024;  // 8 KiB of data
constexpr size_t kPacketBytes = 8;      // of data
constexpr size_t kMostPacketData = size_t{kMostBlocks} * kPacketsPerBlock * kPacketBytes;

// What streams write and wait for in their front end, one line per peer.
struct StreamLine {
  uint64_t call;
  uint64_t input;
  uint64_t output;
  uint32_t ready;
  uint32_t done;
  uint32_t unused[8];
};

// One of a rank; its peers write the part with their own number.
struct RegionPart {
  Packet headers[2][kMostBlocks][kHeaderPackets];
  uint32_t begun[kMostBlocks];  // what the block has done before is visible
  uint32_t done[kMostBlocks];
  StreamLine stream;
  Packet packets[2][kMostBlocks][kPacketsPerBlock];
};

CCORE_BOTH RegionPart* part_of(char* region, int peer) { return reinterpret_cast<RegionPart*>(region) + peer; }

// Behind the parts: two slots per peer for data without flags, which other words say is there.
CCORE_BOTH char* slot_of(char* region, int ranks, size_t slot_bytes, int peer, uint32_t buffer) {
  return region + sizeof(RegionPart) * static_cast<size_t>(ranks) +
         slot_bytes * (2 * static_cast<size_t>(peer) + buffer);
}
inline size_t region_bytes(int ranks, size_t slot_bytes) {
  return (sizeof(RegionPart) + 2 * slot_bytes) * static_cast<size_t>(ranks);
}

constexpr int kMostBuffers = 512;  // that a rank exports

// Private to a rank, in its device memory.
struct Control {
  uint32_t error;  // a Failure of this handle, none if 0
  uint32_t unused[31];
  uint32_t epochs[kMostBlocks];
};

// Why an operation ended early. The first one of a handle counts.
enum class Failure : uint32_t { kNone = 0, kTimeout = 1, kAborted = 2, kDesync = 3 };

// In host memory that the device maps. The device writes `failure` last.
struct HostWords {
  uint32_t abort;
  uint32_t failure;
  uint32_t rank;  // that was waited for, or that called something else
  uint32_t epoch;
  uint64_t own_call;
  uint64_t peer_call;
  uint32_t begun;  // epochs of stream operations that wait, and that have ended
  uint32_t ended;
};

// What must be equal on all ranks.
enum class Kind : uint32_t { kAllReduce = 1, kReduceScatter = 2, kAllGather = 3, kBroadcast = 4, kExchange = 5 };
CCORE_BOTH uint64_t call_of(Kind kind, int dtype, int op, int root, uint64_t count) {
  const uint32_t signature = static_cast<uint32_t>(kind) << 28 | static_cast<uint32_t>(dtype & 0xff) << 20 |
                             static_cast<uint32_t>(op & 0xf) << 16 | static_cast<uint32_t>(root & 0xff) << 8 |
                             static_cast<uint32_t>(count >> 32 & 0xff);
  return uint64_t{signature} << 32 | (count & 0xffffffffu);
}

}  // namespace ccore_cuda
