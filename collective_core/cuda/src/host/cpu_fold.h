// all_reduce of small data by the CPUs, for ranks that take turns on one GPU (processes without MPS).
//
// There, each kernel and each wait of a stream costs a change of the GPU's time slice, 145 us on an H200, and copies to and
// from the host cost none. So the input is copied to pinned memory, the ranks' communicator reduces it there, and the result
// is copied back.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "collective_core/collective_core.h"
#include "meeting.h"

namespace ccore_cuda {

class CpuFold {
 public:
  // most_bytes: larger data is left to others.
  CpuFold(const Meeting& meeting, size_t most_bytes, int64_t timeout_ms);
  ~CpuFold();
  CpuFold(const CpuFold&) = delete;
  CpuFold& operator=(const CpuFold&) = delete;

  // The same on all ranks. False for data that the CPUs would round more than once.
  bool takes(size_t count, cc_dtype dtype, cc_redop op) const;
  // Collective. Blocks the host until the inputs of all ranks have arrived there. The first call makes the memory. Not
  // during a capture.
  void all_reduce(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op, cudaStream_t stream);

 private:
  void make_memory();
  void await_input() const;

  const Meeting& meeting_;
  const size_t most_bytes_;
  const int64_t timeout_ns_;
  void* memory_ = nullptr;  // that the communicator reads and writes without a copy
  cudaEvent_t arrived_ = nullptr;
};

}  // namespace ccore_cuda
