// Ranks that are processes on one GPU: the streams wait for each other in their front end, and no kernel spins. Without MPS,
// the time slice of the GPU then changes between processes only when one has work. With MPS, no rank that waits keeps
// multiprocessors from the kernels that a peer needs before it comes.
#pragma once

#include "driver.h"
#include "paths/path.h"

namespace ccore_cuda {

class StreamPath {
 public:
  StreamPath(const PathContext* context, uint32_t first_epoch);

  void all_reduce(const ReduceCall& call);
  void reduce_scatter(const ReduceCall& call);
  void copy(const CopyCall& call);

 private:
  void all_reduce_in_slots(const ReduceCall& call);
  void two_shot(TwoShot* step, const ReduceCall& call);
  // Tells the peers where this rank's buffers are, and waits until all have come.
  void meet(const Placed& placed, uint64_t call, cudaStream_t stream);
  // Notes the end of the operation; waits: until all peers are done with the buffers.
  void part(cudaStream_t stream, bool waits);

  const PathContext& context_;
  StreamWords words_;
  uint32_t* begun_;  // as the device sees them
  uint32_t* ended_;
  uint32_t epoch_;
  uint32_t number_ = 0;  // among the operations of the handle whose streams wait
  uint32_t slots_used_ = 0;
};

}  // namespace ccore_cuda
