// One-shot reduction in packets: each rank writes its data into a place of each peer, with the epoch beside every four
// bytes, and reduces what arrives in its own. One way of latency, no barrier.
#pragma once

#include "kernels/element.cuh"
#include "kernels/invalidate.cuh"
#include "kernels/packet_header.cuh"

namespace ccore_cuda {

// kRanks 0: as many as the arguments say.
template <typename T, int kRanks, bool kSum>
__global__ void __launch_bounds__(kPacketThreads + 32)
    packet_reduce(const __grid_constant__ PacketReduce a, const __grid_constant__ Peers peers) {
  constexpr size_t kElements = 8 / sizeof(T);
  const BlockStart start(peers);
  if (__builtin_expect(start.failed, 0)) return invalidate_elements<T>(a);
  DeviceWatch watch(peers, start.epoch, a.call);
  bool complete = true;
  const uint32_t workers = blockDim.x - 32;
  if (threadIdx.x >= workers) {
    complete = meet_by_header(peers, a.call, start.epoch, &watch);
  } else {
    const int ranks = kRanks ? kRanks : peers.size;
    const uint32_t buffer = buffer_of(start.epoch);
    const uint32_t first = blockIdx.x * a.spread.packets_per_block;
    const uint32_t packets = min(a.spread.packets_per_block, a.spread.packets - first);
    const T* const input = static_cast<const T*>(a.input);
    T* const output = static_cast<T*>(a.output);
    const bool aligned_input = (reinterpret_cast<uintptr_t>(input) | a.stride * sizeof(T)) % 8 == 0;
    const bool aligned_output = reinterpret_cast<uintptr_t>(output) % 8 == 0;
    for (uint32_t i = threadIdx.x; i < packets; i += workers) {
      const size_t at = (first + i) * kElements;
      uint64_t data = 0;
#pragma unroll
      for (int step = 1; step < ranks; ++step) {
        const int peer = peers.rank + step < ranks ? peers.rank + step : peers.rank + step - ranks;
        if (step == 1 || a.stride) {
          data = load_elements(input + static_cast<size_t>(peer) * a.stride + at, a.count - at, aligned_input);
        }
        send_packet<DeviceMemory>(&part_of(peers.regions[peer], peers.rank)->packets[buffer][blockIdx.x][i], data,
                                  start.epoch);
      }
    }
    for (uint32_t i = threadIdx.x; i < packets; i += workers) {
      const size_t at = (first + i) * kElements;
      const uint64_t own =
          load_elements(input + static_cast<size_t>(peers.rank) * a.stride + at, a.count - at, aligned_input);
      Accumulator<T, uint64_t, kSum> sum;
      const auto from = [&](int rank) {
        return &part_of(peers.regions[peers.rank], rank)->packets[buffer][blockIdx.x][i];
      };
      if constexpr (kRanks != 0) {
        // All peers' packets are looked at before any is waited for.
        Packet seen[kRanks];
        do {
          complete = true;
#pragma unroll
          for (int rank = 0; rank < kRanks; ++rank) {
            if (rank != peers.rank) seen[rank] = DeviceMemory::load(from(rank));
          }
          int missing = 0;
#pragma unroll
          for (int rank = 0; rank < kRanks; ++rank) {
            if (rank == peers.rank || has_epoch(seen[rank], start.epoch)) continue;
            complete = false;
            missing = rank;
          }
          if (!complete && watch.ends(missing)) break;
        } while (!complete);
        if (!complete) break;
#pragma unroll
        for (int rank = 0; rank < kRanks; ++rank) {
          const uint64_t bits = rank == peers.rank ? own : data_of(seen[rank]);
          if (rank == 0) {
            sum.start(bits);
          } else {
            sum.add(a.op, bits);
          }
        }
      } else {
        for (int rank = 0; rank < ranks && complete; ++rank) {
          uint64_t bits = own;
          if (rank != peers.rank) {
            complete = receive_packet<DeviceMemory>(from(rank), start.epoch, &bits, &watch, rank);
          }
          if (rank == 0) {
            sum.start(bits);
          } else {
            sum.add(a.op, bits);
          }
        }
        if (!complete) break;
      }
      store_elements(output + at, sum.result(a.op, ranks), a.count - at, aligned_output);
    }
  }
  if (__builtin_expect(__syncthreads_or(!complete), 0)) invalidate_elements<T>(a);
  if (threadIdx.x == 0) end_block(peers, start.epoch);
}

}  // namespace ccore_cuda
