// Copies of bytes by all threads of several blocks, in packs of 16 bytes where both sides allow it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccore_cuda {

// A pack of 16 bytes, of which `bytes` count, to an address with any alignment.
__device__ __forceinline__ void store_pack(char* to, uint4 pack, size_t bytes, size_t alignment) {
  if (bytes == 16 && alignment >= 16) {
    *reinterpret_cast<uint4*>(to) = pack;
    return;
  }
  const uint32_t words[4] = {pack.x, pack.y, pack.z, pack.w};
  if (bytes == 16 && alignment >= 4) {
#pragma unroll
    for (int k = 0; k < 4; ++k) reinterpret_cast<uint32_t*>(to)[k] = words[k];
    return;
  }
#pragma unroll
  for (size_t k = 0; k < 16; ++k) {
    if (k < bytes) to[k] = static_cast<char>(words[k / 4] >> (8 * (k % 4)));
  }
}

__device__ __forceinline__ uint4 load_pack(const char* from, size_t bytes, bool aligned) {
  if (aligned && bytes == 16) return *reinterpret_cast<const uint4*>(from);
  uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
  for (size_t k = 0; k < 16; ++k) {
    if (k < bytes) words[k / 4] |= static_cast<uint32_t>(static_cast<unsigned char>(from[k])) << (8 * (k % 4));
  }
  return uint4{words[0], words[1], words[2], words[3]};
}

// What block `block` of `blocks` has of the packs.
__device__ __forceinline__ void copy_packs(char* to, const char* from, size_t bytes, int block, int blocks) {
  if (to == from) return;
  const uintptr_t address = reinterpret_cast<uintptr_t>(to);
  const size_t alignment = address % 16 == 0 ? 16 : address % 4 == 0 ? 4 : 1;
  const bool aligned = reinterpret_cast<uintptr_t>(from) % 16 == 0;
  const size_t packs = (bytes + 15) / 16, step = static_cast<size_t>(blocks) * blockDim.x;
  size_t i = static_cast<size_t>(block) * blockDim.x + threadIdx.x;
  if (aligned && alignment == 16) {
    // All loads before the first store, which might write what is loaded next: the links need many loads under way.
    constexpr int kInFlight = 4;
    const uint4* const source = reinterpret_cast<const uint4*>(from);
    uint4* const target = reinterpret_cast<uint4*>(to);
    for (const size_t whole = bytes / 16; i + (kInFlight - 1) * step < whole; i += kInFlight * step) {
      uint4 loaded[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) loaded[k] = source[i + k * step];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) target[i + k * step] = loaded[k];
    }
  }
  for (; i < packs; i += step) {
    const size_t some = min(size_t{16}, bytes - i * 16);
    store_pack(to + i * 16, load_pack(from + i * 16, some, aligned), some, alignment);
  }
}

}  // namespace ccore_cuda
