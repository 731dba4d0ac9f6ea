// The reduction of what peers have pushed into the slots of this rank. The streams have met before.
#pragma once

#include "kernels/element.cuh"
#include "kernels/meeting.cuh"

namespace ccore_cuda {

template <typename T>
__global__ void __launch_bounds__(512)
    fold_slots(const __grid_constant__ FoldSlots a, const __grid_constant__ Peers peers) {
  constexpr size_t kElements = 8 / sizeof(T);
  __shared__ Met met;
  if (!begin_meeting(peers, true, &met)) return;
  DeviceWatch watch(peers, 0, a.call);
  read_stream_words(peers, a.call, a.stream_buffer, &met, &watch);
  if (met.broken) return;
  const T* const input = static_cast<const T*>(a.input);
  T* const output = static_cast<T*>(a.output);
  const bool aligned_input = reinterpret_cast<uintptr_t>(input) % 8 == 0;
  const bool aligned_output = reinterpret_cast<uintptr_t>(output) % 8 == 0;
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i * kElements < a.count; i += step) {
    const size_t at = i * kElements, some = a.count - at;
    Accumulator<T, uint64_t, false> sum;
    for (int rank = 0; rank < peers.size; ++rank) {
      const uint64_t bits = rank == peers.rank
                                ? load_elements(input + at, some, aligned_input)
                                : *reinterpret_cast<const uint64_t*>(reinterpret_cast<const T*>(a.slots[rank]) + at);
      if (rank == 0) {
        sum.start(bits);
      } else {
        sum.add(a.op, bits);
      }
    }
    store_elements(output + at, sum.result(a.op, peers.size), some, aligned_output);
  }
}

}  // namespace ccore_cuda
