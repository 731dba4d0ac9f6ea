// The part of a packet operation that its last warp has: headers to and from the peers, so that ranks that call
// something else are named, and no block is two operations ahead of a peer's.
#pragma once

#include "kernels/watch.cuh"

namespace ccore_cuda {

// False: a peer did not come, or called something else.
__device__ __forceinline__ bool meet_by_header(const Peers& peers, uint64_t call, uint32_t epoch, DeviceWatch* watch) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  if (lane >= peers.size || lane == peers.rank) return true;
  const uint32_t buffer = buffer_of(epoch);
  send_packet<DeviceMemory>(&words_of(peers.regions[lane], blockIdx.x)->headers[buffer][peers.rank][kCall], call,
                            epoch);
  uint64_t theirs = 0;
  const Packet* from = &words_of(peers.regions[peers.rank], blockIdx.x)->headers[buffer][lane][kCall];
  if (!receive_packet<DeviceMemory>(from, epoch, &theirs, watch, lane)) return false;
  if (theirs == call) return true;
  watch->fail(Failure::kDesync, lane, theirs);
  return false;
}

}  // namespace ccore_cuda
