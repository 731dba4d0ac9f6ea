// all_gather and broadcast in packets, of any type: bytes.
#include "kernels/element.cuh"
#include "kernels/invalidate.cuh"
#include "kernels/launch.cuh"
#include "kernels/packet_header.cuh"

namespace ccore_cuda {
namespace {

__global__ void __launch_bounds__(kPacketThreads + 32)
    packet_copy(const __grid_constant__ PacketCopy a, const __grid_constant__ Peers peers) {
  const BlockStart start(peers);
  if (__builtin_expect(start.failed, 0)) return invalidate_copies(a, peers);
  DeviceWatch watch(peers, start.epoch, a.call);
  bool complete = true;
  const uint32_t workers = blockDim.x - 32;
  if (threadIdx.x >= workers) {
    complete = meet_by_header(peers, a.call, start.epoch, &watch);
  } else {
    const uint32_t buffer = buffer_of(start.epoch);
    const uint32_t first = blockIdx.x * a.spread.packets_per_block;
    const uint32_t packets = min(a.spread.packets_per_block, a.spread.packets - first);
    const bool sends = a.root < 0 || a.root == peers.rank;
    const bool aligned_input = reinterpret_cast<uintptr_t>(a.input) % 8 == 0;
    const bool aligned_output = (reinterpret_cast<uintptr_t>(a.output) | a.stride) % 8 == 0;
    for (uint32_t i = threadIdx.x; i < packets && sends; i += workers) {
      const size_t at = size_t{first + i} * kPacketBytes;
      const uint64_t data = load_elements(a.input + at, a.bytes - at, aligned_input);
      for (int step = 1; step < peers.size; ++step) {
        const int peer = peers.rank + step < peers.size ? peers.rank + step : peers.rank + step - peers.size;
        send_packet<DeviceMemory>(&part_of(peers.regions[peer], peers.rank)->packets[buffer][blockIdx.x][i], data,
                                  start.epoch);
      }
      char* const own = a.output + (a.root < 0 ? static_cast<size_t>(peers.rank) * a.stride : 0);
      if (own != a.input) store_elements(own + at, data, a.bytes - at, aligned_output);
    }
    for (uint32_t i = threadIdx.x; i < packets; i += workers) {
      const size_t at = size_t{first + i} * kPacketBytes;
      for (int rank = 0; rank < peers.size && complete; ++rank) {
        if (rank == peers.rank || (a.root >= 0 && rank != a.root)) continue;
        uint64_t data = 0;
        complete =
            receive_packet<DeviceMemory>(&part_of(peers.regions[peers.rank], rank)->packets[buffer][blockIdx.x][i],
                                         start.epoch, &data, &watch, rank);
        if (!complete) break;
        char* const to = a.output + (a.root < 0 ? static_cast<size_t>(rank) * a.stride : 0);
        store_elements(to + at, data, a.bytes - at, aligned_output);
      }
      if (!complete) break;
    }
  }
  if (__builtin_expect(__syncthreads_or(!complete), 0)) invalidate_copies(a, peers);
  if (threadIdx.x == 0) end_block(peers, start.epoch);
}

}  // namespace

void start_packet_copy(const PacketCopy& copy, const Peers& peers, cudaStream_t stream) {
  launch(packet_copy, copy.spread.blocks, threads_of(copy.spread), copy, peers, stream);
}

std::vector<const void*> copy_functions() { return {reinterpret_cast<const void*>(packet_copy)}; }

}  // namespace ccore_cuda
