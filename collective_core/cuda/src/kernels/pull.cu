// all_gather and broadcast of large data: each rank reads the buffers of its peers.
#include "kernels/copy.cuh"
#include "kernels/invalidate.cuh"
#include "kernels/launch.cuh"
#include "kernels/meeting.cuh"

namespace ccore_cuda {
namespace {

__global__ void __launch_bounds__(kPullThreads)
    pull(const __grid_constant__ Pull a, const __grid_constant__ Peers peers) {
  __shared__ Met met;
  if (__builtin_expect(!begin_meeting(peers, a.in_stream, &met), 0)) {
    return invalidate_copies(a, peers);
  }
  DeviceWatch watch(peers, met.epoch, a.call);
  if (a.in_stream) {
    read_stream_words(peers, a.call, a.stream_epoch, &met, &watch);
  } else {
    if (a.placed.stages_input) {
      copy_packs(a.placed.staging, a.input, a.bytes, static_cast<int>(blockIdx.x), a.blocks);
    }
    meet_before(peers, a.placed, a.call, a.placed.stages_input, &met, &watch);
  }
  if (!met.broken) {
    for (int step = 0; step < peers.size; ++step) {
      const int rank = peers.rank + step < peers.size ? peers.rank + step : peers.rank + step - peers.size;
      if (a.root >= 0 && rank != a.root) continue;
      const char* const from = rank == peers.rank ? a.input : reinterpret_cast<const char*>(met.words[kInput][rank]);
      copy_packs(a.output + (a.root < 0 ? a.stride * static_cast<size_t>(rank) : 0), from, a.bytes,
                 static_cast<int>(blockIdx.x), a.blocks);
    }
  }
  if (!a.in_stream) meet_after(peers, &met, &watch);
  if (__builtin_expect(met.broken, 0)) invalidate_copies(a, peers);
  if (threadIdx.x == 0 && !a.in_stream) end_block(peers, met.epoch);
}

// Without meetings: into the slots that this rank has at its peers.
__global__ void __launch_bounds__(kPullThreads)
    push(const __grid_constant__ Push a, const __grid_constant__ Peers peers) {
  for (int step = 1; step < peers.size; ++step) {
    const int rank = peers.rank + step < peers.size ? peers.rank + step : peers.rank + step - peers.size;
    copy_packs(a.slots[rank], a.input, a.bytes, static_cast<int>(blockIdx.x), a.blocks);
  }
}

}  // namespace

void start_pull(const Pull& call, const Peers& peers, cudaStream_t stream) {
  launch(pull, call.blocks, kPullThreads, call, peers, stream);
}

void start_push(const Push& call, const Peers& peers, cudaStream_t stream) {
  launch(push, call.blocks, kPullThreads, call, peers, stream);
}

std::vector<const void*> pull_functions() { return {reinterpret_cast<const void*>(pull)}; }

}  // namespace ccore_cuda
