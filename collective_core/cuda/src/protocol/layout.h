// What lies where in the memory that peers write: the region of a rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "collective_core/collective_core.h"
#include "protocol/flags.h"

namespace ccore_cuda {

constexpr int kMostRanks = 16;
constexpr int kMostBlocks = 64;
constexpr int kPacketsPerBlock = 1024;  // 8 KiB of data
constexpr size_t kPacketBytes = 8;      // of data
constexpr size_t kMostPacketData = size_t{kMostBlocks} * kPacketsPerBlock * kPacketBytes;

// What the stream of one peer writes into a rank's region, for the kernels behind the stream's waits. The epochs tell a
// kernel whether the peer has come, or the wait was ended. A peer may be one operation ahead, so the words of an operation
// have two places. Transfers have numbers of their own, since not all ranks take part in them.
struct StreamLine {
  uint64_t words[2][kHeaderPackets];
  uint32_t epochs[2];  // of the words
  uint32_t done;
  uint32_t sent;  // the number of the transfer
  uint64_t address;
  uint64_t bytes;
};

// What streams wait for in their front end: the words of one rank, which one peer writes after those above. They lie in
// host memory that all ranks map, so that a CPU can end a wait without the driver. Blocks read host memory one after the
// other, so kernels leave it alone.
struct alignas(128) StreamWaits {
  uint32_t ready;
  uint32_t done;
  uint32_t sent;
  uint32_t received;
};
CCORE_BOTH StreamWaits* waits_of(StreamWaits* waits, int ranks, int owner, int peer) {
  return waits + owner * ranks + peer;
}

// What the blocks with one number write to each other: beside each other, since a block looks at all of it at once.
struct BlockWords {
  Packet headers[2][kMostRanks][kHeaderPackets];
  uint32_t begun[kMostRanks];  // what the peer's block has done before is visible
  uint32_t done[kMostRanks];   // it neither reads nor writes this rank's buffers any more
};

// What a peer that sends tells of a transfer to this rank, and one that receives of a transfer from this rank. Transfers
// have epochs of their own, since not all ranks take part in them.
constexpr int kTransferBlocks = 16;
enum MailWord : int { kAddress = 0, kBytes = 1, kMailPackets = 2 };
struct TransferPart {
  Packet mail[kTransferBlocks][kMailPackets];
  uint32_t sent[kTransferBlocks];
  uint32_t received[kTransferBlocks];
};

// Written by one peer.
struct RegionPart {
  StreamLine stream;
  TransferPart transfer;
  Packet packets[2][kMostBlocks][kPacketsPerBlock];
};

// The region of a rank: the words of its blocks, a part for each rank, slots.
CCORE_BOTH BlockWords* words_of(char* region, uint32_t block) { return reinterpret_cast<BlockWords*>(region) + block; }
CCORE_BOTH RegionPart* part_of(char* region, int peer) {
  return reinterpret_cast<RegionPart*>(region + sizeof(BlockWords) * kMostBlocks) + peer;
}

// Behind the parts: two slots per peer for data without flags, which other words say is there.
CCORE_BOTH char* slot_of(char* region, int ranks, size_t slot_bytes, int peer, uint32_t buffer) {
  return reinterpret_cast<char*>(part_of(region, ranks)) + slot_bytes * (2 * static_cast<size_t>(peer) + buffer);
}
inline size_t region_bytes(int ranks, size_t slot_bytes) {
  return sizeof(BlockWords) * kMostBlocks + (sizeof(RegionPart) + 2 * slot_bytes) * static_cast<size_t>(ranks);
}

constexpr int kMostBuffers = 512;  // that a rank exports

// Private to a rank, in its device memory.
struct Control {
  uint32_t error;  // a Failure of this handle, none if 0
  uint32_t unused[31];
  uint32_t epochs[kMostBlocks];
  uint32_t sent[kMostRanks][kTransferBlocks];
  uint32_t received[kMostRanks][kTransferBlocks];
};

// As a handle begins. No epoch is that of memory which no peer has written.
inline Control initial_control(uint32_t first_epoch) {
  Control control{};
  const uint32_t first = first_epoch < kFirstEpoch ? kFirstEpoch : first_epoch;
  for (uint32_t& epoch : control.epochs) epoch = first;
  for (auto* epochs : {control.sent, control.received}) {
    for (int rank = 0; rank < kMostRanks; ++rank) {
      for (uint32_t& epoch : epochs[rank]) epoch = first;
    }
  }
  return control;
}

// Why an operation ended early. The first one of a handle counts.
enum class Failure : uint32_t { kNone = 0, kTimeout = 1, kAborted = 2, kDesync = 3 };

// In host memory that the device maps. The device writes `failure` last. After a failure one of the first two words is
// set: one load of both is the host's check of an operation.
struct alignas(8) HostWords {
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

// What an operation that fails leaves in its outputs, in each 8 bytes: NaN, the minimum of signed integers, the maximum of
// unsigned ones. All bits of an exchange are set, because its call has no data type.
CCORE_BOTH uint64_t invalid_value(uint64_t call) {
  if (call >> 60 == static_cast<uint32_t>(Kind::kExchange)) return ~uint64_t{0};
  switch (call >> 52 & 0xff) {
    case CC_INT8:
      return 0x8080808080808080u;
    case CC_INT32:
      return 0x8000000080000000u;
    case CC_INT64:
      return 0x8000000000000000u;
    default:
      return ~uint64_t{0};
  }
}

}  // namespace ccore_cuda
