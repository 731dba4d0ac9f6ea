// How the blocks of kernels that use peers' buffers meet: before, with headers that say where the buffers are, and after,
// when no block reads or writes them any more. Block b of a rank waits for block b of its peers only.
#pragma once

#include "kernels/watch.cuh"

namespace ccore_cuda {

// In shared memory.
struct Met {
  uint64_t words[kHeaderPackets][kMostRanks];  // of the peers
  uint32_t epoch;
  bool broken;
};

// The words of headers and the words that say that the data is there are waited for by different warps: a warp that
// waits for one kind would not send the other.
constexpr int kFirstAnnouncer = 64;
static_assert(kHeaderPackets * kMostRanks <= kFirstAnnouncer && kFirstAnnouncer % 32 == 0, "a thread for each word");

// Begins the kernel, by all threads: false if the handle has failed. Writes of earlier kernels are released by the
// announcers while other warps read the epoch.
__device__ __forceinline__ bool begin_meeting(const Peers& peers, bool in_stream, Met* met) {
  const int thread = static_cast<int>(threadIdx.x);
  const bool failed = DeviceMemory::load(&peers.control->error) != 0;
  if (thread == 0) {
    met->epoch = in_stream ? 0 : DeviceMemory::load(&peers.control->epochs[blockIdx.x]);
    met->broken = false;
  }
  if (thread >= kFirstAnnouncer && thread < kFirstAnnouncer + peers.size && !in_stream) DeviceMemory::fence();
  return !__syncthreads_or(failed);
}

// By all threads. staged: the block has written what peers read, which is visible to them afterwards.
__device__ __forceinline__ void meet_before(const Peers& peers, const Placed& placed, uint64_t call, bool staged,
                                            Met* met, DeviceWatch* watch) {
  if (staged) __syncthreads();
  const int thread = static_cast<int>(threadIdx.x), announcer = thread - kFirstAnnouncer;
  const int peer = thread / kHeaderPackets, word = thread % kHeaderPackets;
  const uint32_t epoch = met->epoch, buffer = buffer_of(epoch);
  const BlockWords* const own = words_of(peers.regions[peers.rank], blockIdx.x);
  if (peer < peers.size && peer != peers.rank) {
    send_packet<DeviceMemory>(&words_of(peers.regions[peer], blockIdx.x)->headers[buffer][peers.rank][word],
                              word == kCall    ? call
                              : word == kInput ? placed.input_for[peer]
                                               : placed.output_for[peer],
                              epoch);
    uint64_t data = 0;
    if (!receive_packet<DeviceMemory>(&own->headers[buffer][peer][word], epoch, &data, watch, peer)) {
      met->broken = true;
    } else if (word == kCall && data != call) {
      watch->fail(Failure::kDesync, peer, data);
      met->broken = true;
    }
    met->words[word][peer] = data;
  } else if (announcer >= 0 && announcer < peers.size && announcer != peers.rank) {
    uint32_t* const to = &words_of(peers.regions[announcer], blockIdx.x)->begun[peers.rank];
    if (staged) {
      announce<DeviceMemory>(to, epoch);
    } else {
      DeviceMemory::store(to, epoch);  // after the fence of begin_meeting
    }
    if (!await<DeviceMemory>(&own->begun[announcer], epoch, watch, announcer)) met->broken = true;
  }
  __syncthreads();
}

// Of an operation whose streams have met: the words that the peers' streams have written. It is broken if the host has
// ended the wait, which has a text of its own.
__device__ __forceinline__ void read_stream_words(const Peers& peers, uint64_t call, uint32_t epoch, Met* met,
                                                  DeviceWatch* watch) {
  const int thread = static_cast<int>(threadIdx.x);
  const int peer = thread / kHeaderPackets, word = thread % kHeaderPackets;
  if (peer < peers.size && peer != peers.rank) {
    const StreamLine& line = part_of(peers.regions[peers.rank], peer)->stream;
    const uint32_t buffer = buffer_of(epoch);
    const uint64_t data = DeviceMemory::load(&line.words[buffer][word]);
    if (DeviceMemory::load(&line.epochs[buffer]) != epoch) {
      met->broken = true;
    } else if (word == kCall && data != call) {
      watch->fail(Failure::kDesync, peer, data);
      met->broken = true;
    }
    met->words[word][peer] = data;
  }
  __syncthreads();
}

// By all threads.
__device__ __forceinline__ void meet_after(const Peers& peers, Met* met, DeviceWatch* watch) {
  const int peer = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (peer < peers.size && peer != peers.rank && !met->broken) {
    announce<DeviceMemory>(&words_of(peers.regions[peer], blockIdx.x)->done[peers.rank], met->epoch);
    const uint32_t* const word = &words_of(peers.regions[peers.rank], blockIdx.x)->done[peer];
    if (!await<DeviceMemory>(word, met->epoch, watch, peer)) met->broken = true;
  }
  __syncthreads();
}

}  // namespace ccore_cuda
