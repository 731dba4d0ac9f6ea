// Ranks that share a GPU without MPS: the streams wait for each other in their front end, and no kernel spins. The time
// slice of the GPU changes between processes only when one has work.
#pragma once

#include "driver.h"
#include "paths/path.h"

namespace ccore_cuda {

class StreamPath {
 public:
  StreamPath(const PathContext* context, uint32_t first_epoch);

  void all_reduce(const ReduceCall& call);

 private:
  void meet(const Placed& placed, uint64_t call, cudaStream_t stream);
  void part(cudaStream_t stream);

  const PathContext& context_;
  StreamWords words_;
  uint32_t* begun_;  // as the device sees them
  uint32_t* ended_;
  uint32_t epoch_;
};

}  // namespace ccore_cuda
