// How the blocks of kernels that use peers' buffers meet: before, with headers that say where the buffers are, and after,
// when no block reads or writes them any more. Block b of a rank waits for block b of its peers only.
#pragma once

#include "kernels/watch.cuh"

namespace ccore_cuda {

// In shared memory.
struct Met {
  uint64_t words[kHeaderPackets][kMostRanks];  // of the peers
  bool broken;
};

// By all threads. What the block has written before is visible to its peers afterwards.
__device__ __forceinline__ void meet_before(const Peers& peers, const Placed& placed, uint64_t call, bool in_stream,
                                            uint32_t epoch, Met* met, DeviceWatch* watch) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) met->broken = false;
  __syncthreads();
  // A thread for each word of each peer, and one for the word that says that the data is there.
  const int peer = thread / (kHeaderPackets + 1), word = thread % (kHeaderPackets + 1);
  if (peer < peers.size && peer != peers.rank) {
    RegionPart* const from = part_of(peers.regions[peers.rank], peer);
    uint64_t data = 0;
    bool complete = true;
    if (in_stream) {
      if (word == kCall) data = DeviceMemory::load(&from->stream.call);
      if (word == kInput) data = DeviceMemory::load(&from->stream.input);
      if (word == kOutput) data = DeviceMemory::load(&from->stream.output);
    } else {
      RegionPart* const to = part_of(peers.regions[peer], peers.rank);
      const uint32_t buffer = buffer_of(epoch);
      if (word == kHeaderPackets) {
        announce<DeviceMemory>(&to->begun[blockIdx.x], epoch);
        complete = await<DeviceMemory>(&from->begun[blockIdx.x], epoch, watch, peer);
      } else {
        send_packet<DeviceMemory>(&to->headers[buffer][blockIdx.x][word],
                                  word == kCall    ? call
                                  : word == kInput ? placed.input_for[peer]
                                                   : placed.output_for[peer],
                                  epoch);
        complete = receive_packet<DeviceMemory>(&from->headers[buffer][blockIdx.x][word], epoch, &data, watch, peer);
      }
    }
    if (complete && word == kCall && data != call) {
      watch->fail(Failure::kDesync, peer, data);
      complete = false;
    }
    if (!complete) met->broken = true;
    if (word < kHeaderPackets) met->words[word][peer] = data;
  }
  __syncthreads();
}

// By all threads.
__device__ __forceinline__ void meet_after(const Peers& peers, uint32_t epoch, Met* met, DeviceWatch* watch) {
  const int peer = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (peer < peers.size && peer != peers.rank && !met->broken) {
    announce<DeviceMemory>(&part_of(peers.regions[peer], peers.rank)->done[blockIdx.x], epoch);
    const uint32_t* const word = &part_of(peers.regions[peers.rank], peer)->done[blockIdx.x];
    if (!await<DeviceMemory>(word, epoch, watch, peer)) met->broken = true;
  }
  __syncthreads();
}

}  // namespace ccore_cuda
