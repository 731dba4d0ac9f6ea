// The outputs of an operation that has failed: nothing in them may look like a result.
#pragma once

#include "kernels/arguments.h"

namespace ccore_cuda {

// By all threads of a block, which fill all of it: other blocks may not have failed. Elements are aligned to their size.
__device__ __forceinline__ void invalidate(void* output, size_t bytes, uint64_t value) {
  char* const begin = static_cast<char*>(output);
  const size_t head = min(bytes, (16 - reinterpret_cast<uintptr_t>(begin) % 16) % 16);
  const size_t packs = (bytes - head) / 16, tail = head + packs * 16;
  const uint2 half{static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
  for (size_t i = threadIdx.x; i < packs; i += blockDim.x) {
    reinterpret_cast<uint4*>(begin + head)[i] = uint4{half.x, half.y, half.x, half.y};
  }
  const auto byte = [&](size_t at) {
    begin[at] = static_cast<char>(value >> (8 * (reinterpret_cast<uintptr_t>(begin + at) % 8)));
  };
  for (size_t at = threadIdx.x; at < head; at += blockDim.x) byte(at);
  for (size_t at = tail + threadIdx.x; at < bytes; at += blockDim.x) byte(at);
}

// What an operation that copies from each rank, or from root, has as its output. A root in place keeps what it has. Out of
// line, like the others of a kernel: its code would be fetched by each operation that does not fail.
template <typename Copy>
__device__ __noinline__ void invalidate_copies(const Copy& a, const Peers& peers) {
  if (a.root == peers.rank && a.output == a.input) return;
  for (int row = 0; row < (a.root < 0 ? peers.size : 1); ++row) {
    invalidate(a.output + static_cast<size_t>(row) * a.stride, a.bytes, invalid_value(a.call));
  }
}

// The output of an operation with as many elements as it says.
template <typename T, typename Reduction>
__device__ __noinline__ void invalidate_elements(const Reduction& a) {
  invalidate(a.output, a.count * sizeof(T), invalid_value(a.call));
}

}  // namespace ccore_cuda
