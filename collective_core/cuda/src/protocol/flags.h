// The words by which ranks wait for each other, as templates over a memory: device memory in the kernels, atomics of
// the CPU in the tests.
//
// All words carry the epoch of the operation, and a wait ends at exactly this epoch: a "not before" would be wrong after
// 2^31 operations that did not use the word. Each block has its own epoch and its own words, so that blocks of a kernel
// need not meet at its end. The rules that make two buffers enough:
//   1. In each operation each block sends a header to the same block of every peer and waits for theirs.
//   2. An operation begins when the operation before it has ended on this rank.
// So a block that is in operation e + 2 knows that its peers have ended operation e, whose words it now overwrites.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define CCORE_LANE __device__ __forceinline__
#define CCORE_BOTH __host__ __device__ __forceinline__
#else
#define CCORE_LANE inline
#define CCORE_BOTH inline
#endif

namespace ccore_cuda {

// Two words of data, each beside the epoch in 8 bytes that are written and read as one.
struct alignas(16) Packet {
  uint64_t low;
  uint64_t high;
};

// Memory is zero at first, so no epoch is 0. Even follows odd, also after the last: the buffers alternate.
constexpr uint32_t kFirstEpoch = 2;
CCORE_BOTH uint32_t epoch_after(uint32_t epoch) { return epoch == 0xffffffffu ? kFirstEpoch : epoch + 1; }
CCORE_BOTH uint32_t buffer_of(uint32_t epoch) { return epoch & 1; }

CCORE_BOTH uint64_t tagged(uint32_t data, uint32_t epoch) { return uint64_t{epoch} << 32 | data; }
CCORE_BOTH bool has_epoch(const Packet& packet, uint32_t epoch) {
  return static_cast<uint32_t>(packet.low >> 32) == epoch && static_cast<uint32_t>(packet.high >> 32) == epoch;
}
CCORE_BOTH uint64_t data_of(const Packet& packet) {
  return (packet.high & 0xffffffffu) << 32 | (packet.low & 0xffffffffu);
}

// What a rank tells its peers of an operation, in packets: what they must agree on, and where they find its buffers.
enum HeaderWord : int { kCall = 0, kInput = 1, kOutput = 2, kHeaderPackets = 3 };

template <class Memory>
CCORE_LANE void send_packet(Packet* to, uint64_t data, uint32_t epoch) {
  Memory::store(to,
                Packet{tagged(static_cast<uint32_t>(data), epoch), tagged(static_cast<uint32_t>(data >> 32), epoch)});
}

// Waits for the data of a packet that `rank` sends. False: the watch has ended the wait.
template <class Memory, class Watch>
CCORE_LANE bool receive_packet(const Packet* from, uint32_t epoch, uint64_t* data, Watch* watch, int rank) {
  Packet packet = Memory::load(from);
  while (!has_epoch(packet, epoch)) {
    if (watch->ends(rank)) return false;
    packet = Memory::load(from);
  }
  *data = data_of(packet);
  return true;
}

// A word that says that everything this block has done before is visible to who sees the epoch.
template <class Memory>
CCORE_LANE void announce(uint32_t* word, uint32_t epoch) {
  Memory::store_release(word, epoch);
}
template <class Memory, class Watch>
CCORE_LANE bool await(const uint32_t* word, uint32_t epoch, Watch* watch, int rank) {
  while (Memory::load_acquire(word) != epoch) {
    if (watch->ends(rank)) return false;
  }
  return true;
}

}  // namespace ccore_cuda
