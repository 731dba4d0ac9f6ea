// The end of a wait that would not end: deadline, abort word, or a failure of another block.
#pragma once

#include "kernels/arguments.h"
#include "kernels/device_memory.cuh"

namespace ccore_cuda {

__device__ __forceinline__ uint64_t device_clock_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

class DeviceWatch {
 public:
  __device__ __forceinline__ DeviceWatch(const Peers& peers, uint32_t epoch, uint64_t call)
      : peers_(peers), end_(device_clock_ns() + peers.deadline_ns), epoch_(epoch), call_(call) {}

  // Called after each look that found nothing.
  __device__ __forceinline__ bool ends(int rank) {
    if ((++looks_ & 255u) != 0) return false;
    return looks(rank);
  }

  __device__ __noinline__ void fail(Failure failure, int rank, uint64_t peer_call) {
    if (atomicCAS(&peers_.control->error, 0u, static_cast<uint32_t>(failure)) != 0) return;
    HostWords* host = peers_.host;
    DeviceMemory::store(&host->rank, static_cast<uint32_t>(rank));
    DeviceMemory::store(&host->epoch, epoch_);
    DeviceMemory::store(&host->own_call, call_);
    DeviceMemory::store(&host->peer_call, peer_call);
    DeviceMemory::store_release(&host->failure, static_cast<uint32_t>(failure));
  }

 private:
  __device__ __noinline__ bool looks(int rank) {
    if (DeviceMemory::load(&peers_.control->error) != 0) return true;
    if ((looks_ & 4095u) == 0 && DeviceMemory::load(&peers_.host->abort) != 0) {
      fail(Failure::kAborted, rank, 0);
      return true;
    }
    if (device_clock_ns() < end_) return false;
    fail(Failure::kTimeout, rank, 0);
    return true;
  }

  const Peers& peers_;
  uint64_t end_;
  uint32_t looks_ = 0;
  uint32_t epoch_;
  uint64_t call_;
};

// What a block knows when it starts. A handle that has failed does nothing more.
struct BlockStart {
  uint32_t epoch;
  bool failed;
  __device__ __forceinline__ explicit BlockStart(const Peers& peers)
      : epoch(DeviceMemory::load(&peers.control->epochs[blockIdx.x])),
        failed(DeviceMemory::load(&peers.control->error) != 0) {}
};

// By one thread, when all threads of the block have read the epoch.
__device__ __forceinline__ void end_block(const Peers& peers, uint32_t epoch) {
  peers.control->epochs[blockIdx.x] = epoch_after(epoch);
}

}  // namespace ccore_cuda
