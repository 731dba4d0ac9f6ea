// Waits for the peers of an operation before its wide kernel starts: one warp, so that a rank that waits for a late one
// leaves the GPU to the program. It sends the header that the wide kernel sends again, and ends when it has those of the
// peers. So peers cannot tell whether a rank has a gate.
#include "error.h"
#include "kernels/packet_header.cuh"

namespace ccore_cuda {
namespace {

constexpr int kGateThreads = 32;

__global__ void __launch_bounds__(kGateThreads)
    pass_gate(const __grid_constant__ uint64_t call, const __grid_constant__ Peers peers) {
  const BlockStart start(peers);
  if (start.failed) return;
  DeviceWatch watch(peers, start.epoch, call);
  meet_by_header(peers, call, start.epoch, &watch);
}

}  // namespace

void start_gate(uint64_t call, const Peers& peers, cudaStream_t stream) {
  void* parameters[] = {&call, const_cast<Peers*>(&peers)};
  check(cudaLaunchKernel(reinterpret_cast<const void*>(pass_gate), dim3(1), dim3(kGateThreads), parameters, 0, stream),
        "starting a kernel");
}

std::vector<const void*> gate_functions() { return {reinterpret_cast<const void*>(pass_gate)}; }

}  // namespace ccore_cuda
