// Sends and receives: the receiver reads the sender's buffer, or what the sender has staged of it.
#include "kernels/copy.cuh"
#include "kernels/invalidate.cuh"
#include "kernels/launch.cuh"
#include "kernels/watch.cuh"
#include "protocol/transfers.h"

namespace ccore_cuda {
namespace {

__device__ __forceinline__ const char* source_of(const Exchange& a, const Peers& peers, const Transfer& transfer,
                                                 uint64_t address) {
  if (address) return reinterpret_cast<const char*>(address);
  return slot_of(peers.regions[transfer.peer], peers.size, a.slot_bytes, peers.rank, 0);
}

__device__ __noinline__ void invalidate_receive(const Transfer& transfer) {
  if (!transfer.sends) invalidate(transfer.to, transfer.bytes, invalid_value(call_of(Kind::kExchange, 0, 0, 0, 0)));
}

// A receive whose data is there.
__device__ void receive_in_stream(const Exchange& a, const Peers& peers, const Transfer& transfer, int block) {
  const StreamLine& mail = part_of(peers.regions[peers.rank], transfer.peer)->stream;
  if (DeviceMemory::load(&mail.sent) != transfer.number) return invalidate_receive(transfer);
  const uint64_t bytes = DeviceMemory::load(&mail.bytes);
  const uint64_t call = call_of(Kind::kExchange, 0, 0, 0, transfer.bytes);
  if (bytes != transfer.bytes) {
    if (threadIdx.x == 0) {
      DeviceWatch(peers, 0, call).fail(Failure::kDesync, transfer.peer, call_of(Kind::kExchange, 0, 0, 0, bytes));
    }
    return invalidate_receive(transfer);
  }
  copy_packs(transfer.to, source_of(a, peers, transfer, DeviceMemory::load(&mail.address)), bytes, block,
             transfer.blocks);
}

__device__ void send(const Peers& peers, const Transfer& transfer, int block, DeviceWatch* watch) {
  uint32_t* const epochs = &peers.control->sent[transfer.peer][block];
  const uint32_t epoch = DeviceMemory::load(epochs);
  if (transfer.stages) copy_packs(transfer.to, transfer.from, transfer.bytes, block, transfer.blocks);
  __syncthreads();
  if (threadIdx.x != 0) return;
  send_mail<DeviceMemory>(&part_of(peers.regions[transfer.peer], peers.rank)->transfer, block, transfer.address,
                          transfer.bytes, epoch);
  await_acknowledgement<DeviceMemory>(part_of(peers.regions[peers.rank], transfer.peer)->transfer, block, epoch, watch,
                                      transfer.peer);
  *epochs = epoch_after(epoch);
}

__device__ void receive(const Exchange& a, const Peers& peers, const Transfer& transfer, int block,
                        DeviceWatch* watch) {
  __shared__ uint64_t words[kMailPackets];
  __shared__ bool complete;
  uint32_t* const epochs = &peers.control->received[transfer.peer][block];
  const uint32_t epoch = DeviceMemory::load(epochs);
  if (threadIdx.x == 0) {
    complete = receive_mail<DeviceMemory>(part_of(peers.regions[peers.rank], transfer.peer)->transfer, block,
                                          &words[kAddress], &words[kBytes], epoch, watch, transfer.peer);
    if (complete && words[kBytes] != transfer.bytes) {
      watch->fail(Failure::kDesync, transfer.peer, call_of(Kind::kExchange, 0, 0, 0, words[kBytes]));
      complete = false;
    }
  }
  __syncthreads();
  if (!complete) return invalidate_receive(transfer);
  copy_packs(transfer.to, source_of(a, peers, transfer, words[kAddress]), transfer.bytes, block, transfer.blocks);
  __syncthreads();
  if (threadIdx.x != 0) return;
  acknowledge<DeviceMemory>(&part_of(peers.regions[transfer.peer], peers.rank)->transfer, block, epoch);
  *epochs = epoch_after(epoch);
}

__global__ void __launch_bounds__(kPullThreads)
    exchange(const __grid_constant__ Exchange a, const __grid_constant__ Peers peers) {
  const bool failed = DeviceMemory::load(&peers.control->error) != 0;
  const int number = static_cast<int>(blockIdx.x);
  int at = 0;
  while (number >= a.transfers[at].first_block + a.transfers[at].blocks) ++at;
  const Transfer& transfer = a.transfers[at];
  const int block = number - transfer.first_block;
  if (failed) return invalidate_receive(transfer);
  if (a.in_stream) return receive_in_stream(a, peers, transfer, block);
  DeviceWatch watch(peers, 0, call_of(Kind::kExchange, 0, 0, 0, transfer.bytes));
  if (transfer.sends) {
    send(peers, transfer, block, &watch);
  } else {
    receive(a, peers, transfer, block, &watch);
  }
}

}  // namespace

void start_exchange(const Exchange& call, const Peers& peers, cudaStream_t stream) {
  launch(exchange, call.blocks, kPullThreads, call, peers, stream);
}

std::vector<const void*> exchange_functions() { return {reinterpret_cast<const void*>(exchange)}; }

}  // namespace ccore_cuda
