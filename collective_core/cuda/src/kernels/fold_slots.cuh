// One-shot all_reduce through slots, without flags in the data. In streams, each rank has pushed its data into the slots
// of its peers, and the streams have met. Through host memory, each block writes its data into its own rank's slot, meets
// its twins, and reads theirs; the headers of the next operation but one follow when all have read the slot.
#pragma once

#include "kernels/element.cuh"
#include "kernels/invalidate.cuh"
#include "kernels/meeting.cuh"

namespace ccore_cuda {

template <typename T>
__device__ __forceinline__ uint4 load_own(const T* from, size_t elements, bool aligned) {
  constexpr size_t kElements = 16 / sizeof(T);
  if (aligned && elements >= kElements) return *reinterpret_cast<const uint4*>(from);
  union {
    uint4 bits;
    T values[kElements];
  } loaded;
  loaded.bits = uint4{0, 0, 0, 0};
#pragma unroll
  for (size_t k = 0; k < kElements; ++k) {
    if (k < elements) loaded.values[k] = from[k];
  }
  return loaded.bits;
}

template <typename T>
__global__ void __launch_bounds__(kFoldThreads)
    fold_slots(const __grid_constant__ FoldSlots a, const __grid_constant__ Peers peers) {
  constexpr size_t kElements = 16 / sizeof(T);
  __shared__ Met met;
  if (__builtin_expect(!begin_meeting(peers, a.in_stream, &met), 0)) {
    return invalidate_elements<T>(a);
  }
  DeviceWatch watch(peers, met.epoch, a.call);
  const T* const input = static_cast<const T*>(a.input);
  T* const output = static_cast<T*>(a.output);
  const bool aligned_input = reinterpret_cast<uintptr_t>(input) % 16 == 0;
  const bool aligned_output = reinterpret_cast<uintptr_t>(output) % 16 == 0;
  // Blocks of streams share the slots. Other blocks have epochs of their own, and so buffers of their own.
  const size_t packs = (a.count + kElements - 1) / kElements;
  const size_t block = blockIdx.x, begin = a.in_stream ? block * blockDim.x : block * a.packs_per_block;
  const size_t end = a.in_stream ? packs : min(packs, begin + a.packs_per_block);
  const size_t step = a.in_stream ? static_cast<size_t>(gridDim.x) * blockDim.x : blockDim.x;
  const uint32_t buffer = a.in_stream ? a.slot : buffer_of(met.epoch);
  const auto slot_at = [&](int region, int rank) {
    return reinterpret_cast<uint4*>(slot_of(peers.regions[region], peers.size, a.slot_bytes, rank, buffer));
  };
  if (a.in_stream) {
    read_stream_words(peers, a.call, a.stream_epoch, &met, &watch);
  } else {
    uint4* const slot = slot_at(peers.rank, peers.rank);
    for (size_t i = begin + threadIdx.x; i < end; i += step) {
      slot[i] = load_own(input + i * kElements, a.count - i * kElements, aligned_input);
    }
    meet_before(peers, Placed{}, a.call, true, &met, &watch);
  }
  if (!met.broken) {
    for (size_t i = begin + threadIdx.x; i < end; i += step) {
      const size_t at = i * kElements, some = a.count - at;
      const auto load = [&](int rank) {
        if (rank == peers.rank) return load_own(input + at, some, aligned_input);
        return *const_cast<const uint4*>(slot_at(a.in_stream ? peers.rank : rank, rank) + i);
      };
      Accumulator<T, uint4, false> sum;
      uint4 next = load(0);
      for (int rank = 0; rank < peers.size; ++rank) {
        const uint4 bits = next;
        if (rank + 1 < peers.size) next = load(rank + 1);
        if (rank == 0) {
          sum.start(bits);
        } else {
          sum.add(a.op, bits);
        }
      }
      union {
        uint4 bits;
        T values[kElements];
      } result;
      result.bits = sum.result(a.op, peers.size);
      if (aligned_output && some >= kElements) {
        *reinterpret_cast<uint4*>(output + at) = result.bits;
      } else {
#pragma unroll
        for (size_t k = 0; k < kElements; ++k) {
          if (k < some) output[at + k] = result.values[k];
        }
      }
    }
  }
  if (__builtin_expect(met.broken, 0)) invalidate_elements<T>(a);
  if (a.in_stream) return;
  __syncthreads();
  if (threadIdx.x == 0) end_block(peers, met.epoch);
}

}  // namespace ccore_cuda
