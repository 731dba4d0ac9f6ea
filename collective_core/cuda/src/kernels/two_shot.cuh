// all_reduce in two shots without copies: each rank reduces its share of all inputs and writes it to all outputs.
//
// Buffers that peers cannot map are staged by their own rank: it copies its input to memory that they map before it
// sends the header, and the result from there afterwards. Each rank decides that for itself; the header tells the peers
// where to read and write. Block b of every rank has the same packs, so blocks wait only for their twins.
#pragma once

#include "kernels/element.cuh"
#include "kernels/watch.cuh"

namespace ccore_cuda {

template <typename T>
struct Shares {
  static constexpr size_t kPack = 16 / sizeof(T);
  size_t count, share;
  __device__ __forceinline__ size_t begin(int rank) const { return min(count, share * static_cast<size_t>(rank)); }
  __device__ __forceinline__ size_t elements(int rank) const { return begin(rank + 1) - begin(rank); }
};

// Copies what this block has of the shares of the peers; either side may have any alignment.
template <typename T>
__device__ __forceinline__ void copy_block(T* to, const T* from, const Shares<T>& shares, const Peers& peers) {
  constexpr size_t kPack = Shares<T>::kPack;
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  const bool aligned = (reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % 16 == 0;
  for (int rank = 0; rank < peers.size; ++rank) {
    if (rank == peers.rank) continue;
    const size_t begin = shares.begin(rank), elements = shares.elements(rank), packs = elements / kPack;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i * kPack < elements; i += stride) {
      const size_t at = begin + i * kPack;
      if (aligned && i < packs) {
        *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(from + at);
      } else {
        for (size_t k = 0; k < kPack && i * kPack + k < elements; ++k) to[at + k] = from[at + k];
      }
    }
  }
}

template <typename T, int kRanks, bool kSum>
__global__ void __launch_bounds__(512)
    two_shot(const __grid_constant__ TwoShot a, const __grid_constant__ Peers peers) {
  constexpr size_t kPack = Shares<T>::kPack;
  __shared__ uint64_t locations[2][kMostRanks];
  __shared__ bool broken;
  const BlockStart start(peers, a.in_stream);
  if (start.failed) return;
  const int ranks = kRanks ? kRanks : peers.size, thread = static_cast<int>(threadIdx.x);
  DeviceWatch watch(peers, start.epoch, a.call);
  const Shares<T> shares{a.count, a.share};
  char* const own_region = peers.regions[peers.rank];

  if (a.stages_input) copy_block(reinterpret_cast<T*>(a.staging), static_cast<const T*>(a.input), shares, peers);
  if (thread == 0) broken = false;
  __syncthreads();
  if (thread < ranks * kHeaderPackets) {
    const int peer = thread / kHeaderPackets, word = thread % kHeaderPackets;
    uint64_t data = word == 0 ? a.call : word == 1 ? a.input_at : a.output_at;
    if (peer != peers.rank) {
      bool complete = true;
      if (a.in_stream) {
        const StreamLine* line = &part_of(own_region, peer)->stream;
        data = DeviceMemory::load(word == 0 ? &line->call : word == 1 ? &line->input : &line->output);
      } else {
        DeviceMemory::fence();
        const uint32_t buffer = buffer_of(start.epoch);
        send_packet<DeviceMemory>(&part_of(peers.regions[peer], peers.rank)->headers[buffer][blockIdx.x][word], data,
                                  start.epoch);
        complete = receive_packet<DeviceMemory>(&part_of(own_region, peer)->headers[buffer][blockIdx.x][word],
                                                start.epoch, &data, &watch, peer);
        DeviceMemory::fence();
      }
      if (complete && word == 0 && data != a.call) {
        watch.fail(Failure::kDesync, peer, data);
        complete = false;
      }
      if (!complete) broken = true;
    }
    if (word != 0) locations[word - 1][peer] = data;
  }
  __syncthreads();
  if (!broken) {
    const size_t begin = shares.begin(peers.rank), elements = shares.elements(peers.rank), packs = elements / kPack;
    const auto address = [&](int which, int rank) {
      const uint64_t location = locations[which][rank];
      const char* base = peers.buffers[rank * kMostBuffers + static_cast<int>(buffer_of_location(location))];
      return const_cast<char*>(base) + offset_of_location(location) + begin * sizeof(T);
    };
    // This rank's own buffers may be elsewhere than where its peers see them, and aligned to an element only.
    const T* const own_input = static_cast<const T*>(a.input) + begin;
    T* const own_output = static_cast<T*>(a.output) + begin;
    const bool aligned = (reinterpret_cast<uintptr_t>(own_input) | reinterpret_cast<uintptr_t>(own_output)) % 16 == 0;
    const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    const size_t first = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    size_t whole = 0;
    if constexpr (kRanks != 0) {
      if (aligned) {
        whole = packs;
        const uint4* inputs[kRanks];
        uint4* outputs[kRanks];
#pragma unroll
        for (int rank = 0; rank < kRanks; ++rank) {
          inputs[rank] = reinterpret_cast<const uint4*>(rank == peers.rank ? reinterpret_cast<const char*>(own_input)
                                                                           : address(0, rank));
          outputs[rank] =
              reinterpret_cast<uint4*>(rank == peers.rank ? reinterpret_cast<char*>(own_output) : address(1, rank));
        }
#pragma unroll 2
        for (size_t i = first; i < packs; i += stride) {
          uint4 loaded[kRanks];
#pragma unroll
          for (int rank = 0; rank < kRanks; ++rank) loaded[rank] = inputs[rank][i];
          Accumulator<T, uint4, kSum> sum;
          sum.start(loaded[0]);
#pragma unroll
          for (int rank = 1; rank < kRanks; ++rank) sum.add(a.op, loaded[rank]);
          const uint4 result = sum.result(a.op, ranks);
#pragma unroll
          for (int rank = 0; rank < kRanks; ++rank) outputs[rank][i] = result;
        }
      }
    }
    // Any number of ranks, any alignment of own buffers, and the end of a share. Each rank has the same order here.
    size_t rest = first + whole / stride * stride;
    if (rest < whole) rest += stride;
    for (size_t i = rest; i * kPack < elements; i += stride) {
      const size_t at = i * kPack;
      const bool vector = aligned && i < packs;
      const size_t some = min(kPack, elements - at);
      const auto load = [&](int rank) {
        union {
          uint4 bits;
          T values[kPack];
        } loaded;
        loaded.bits = uint4{0, 0, 0, 0};
        const T* from = (rank == peers.rank ? own_input : reinterpret_cast<const T*>(address(0, rank))) + at;
        if (vector || (rank != peers.rank && some == kPack)) {
          loaded.bits = *reinterpret_cast<const uint4*>(from);
        } else {
          for (size_t k = 0; k < some; ++k) loaded.values[k] = from[k];
        }
        return loaded.bits;
      };
      Accumulator<T, uint4, kSum> sum;
      sum.start(load(0));
      for (int rank = 1; rank < ranks; ++rank) sum.add(a.op, load(rank));
      union {
        uint4 bits;
        T values[kPack];
      } result;
      result.bits = sum.result(a.op, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        T* to = (rank == peers.rank ? own_output : reinterpret_cast<T*>(address(1, rank))) + at;
        if (vector || (rank != peers.rank && some == kPack)) {
          *reinterpret_cast<uint4*>(to) = result.bits;
        } else {
          for (size_t k = 0; k < some; ++k) to[k] = result.values[k];
        }
      }
    }
  }
  if (!a.in_stream) {
    __syncthreads();
    if (thread < ranks && thread != peers.rank && !broken) {
      announce<DeviceMemory>(&part_of(peers.regions[thread], peers.rank)->done[blockIdx.x], start.epoch);
      if (!await<DeviceMemory>(&part_of(own_region, thread)->done[blockIdx.x], start.epoch, &watch, thread)) {
        broken = true;
      }
    }
    __syncthreads();
    if (a.stages_output && !broken) {
      copy_block(static_cast<T*>(a.output), reinterpret_cast<const T*>(a.staging), shares, peers);
    }
    if (thread == 0) end_block(peers, start.epoch);
  }
}

}  // namespace ccore_cuda
