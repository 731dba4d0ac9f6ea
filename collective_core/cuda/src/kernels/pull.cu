// all_gather and broadcast of large data: each rank reads the buffers of its peers.
#include "error.h"
#include "kernels/meeting.cuh"

namespace ccore_cuda {
namespace {

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

__device__ __forceinline__ void copy_strided(char* to, const char* from, size_t bytes) {
  if (to == from) return;
  const uintptr_t address = reinterpret_cast<uintptr_t>(to);
  const size_t alignment = address % 16 == 0 ? 16 : address % 4 == 0 ? 4 : 1;
  const bool aligned = reinterpret_cast<uintptr_t>(from) % 16 == 0;
  const size_t packs = (bytes + 15) / 16, step = static_cast<size_t>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < packs; i += step) {
    const size_t some = min(size_t{16}, bytes - i * 16);
    store_pack(to + i * 16, load_pack(from + i * 16, some, aligned), some, alignment);
  }
}

__global__ void __launch_bounds__(kPullThreads)
    pull(const __grid_constant__ Pull a, const __grid_constant__ Peers peers) {
  __shared__ Met met;
  const BlockStart start(peers, a.in_stream);
  if (start.failed) return;
  DeviceWatch watch(peers, start.epoch, a.call);
  if (a.placed.stages_input && !a.in_stream) copy_strided(a.placed.staging, a.input, a.bytes);
  meet_before(peers, a.placed, a.call, a.in_stream, start.epoch, &met, &watch);
  if (!met.broken) {
    for (int step = 0; step < peers.size; ++step) {
      const int rank = peers.rank + step < peers.size ? peers.rank + step : peers.rank + step - peers.size;
      if (a.root >= 0 && rank != a.root) continue;
      const char* const from = rank == peers.rank ? a.input : reinterpret_cast<const char*>(met.words[kInput][rank]);
      copy_strided(a.output + (a.root < 0 ? a.stride * static_cast<size_t>(rank) : 0), from, a.bytes);
    }
  }
  if (a.in_stream) return;
  meet_after(peers, start.epoch, &met, &watch);
  if (threadIdx.x == 0) end_block(peers, start.epoch);
}

// Without meetings: into the slots that this rank has at its peers.
__global__ void __launch_bounds__(kPullThreads) push(const __grid_constant__ Push a) {
  for (int step = 1; step < a.size; ++step) {
    const int rank = a.rank + step < a.size ? a.rank + step : a.rank + step - a.size;
    copy_strided(a.slots[rank], a.input, a.bytes);
  }
}

}  // namespace

void start_pull(const Pull& call, const Peers& peers, cudaStream_t stream) {
  pull<<<call.blocks, kPullThreads, 0, stream>>>(call, peers);
  check(cudaGetLastError(), "starting a copy");
}

void start_push(const Push& call, cudaStream_t stream) {
  push<<<call.blocks, kPullThreads, 0, stream>>>(call);
  check(cudaGetLastError(), "starting a copy");
}

std::vector<const void*> pull_functions() { return {reinterpret_cast<const void*>(pull)}; }

}  // namespace ccore_cuda
