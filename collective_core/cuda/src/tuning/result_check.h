// Carries out one call by each candidate on memory of the library, and compares the results with that of the first one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "collective_core/collective_core_cuda_tuning.h"
#include "memory/owned.h"
#include "tuning/call_class.h"
#include "tuning/competition.h"

namespace ccore_cuda {

class ResultCheck {
 public:
  using CarryOut = std::function<void(const cc_cuda_call& call, size_t candidate)>;

  // Allocates memory on the GPU: later an allocation might wait for kernels that wait for peers.
  ResultCheck(int rank, int ranks);
  ~ResultCheck();
  ResultCheck(const ResultCheck&) = delete;
  ResultCheck& operator=(const ResultCheck&) = delete;

  // Queues everything on the call's stream. The type must be one that can_compare() accepts.
  void queue(const cc_cuda_call& call, CallClass of, size_t candidates, const CarryOut& carry_out);
  // After what was queued for the class has ended.
  void read(CallClass of, Record* record) const;

 private:
  uint32_t* words_of(CallClass of, void* begin) const;

  const int rank_, ranks_;
  DeviceMemoryBlock memory_;
  MappedHostMemory wrong_;  // a word for each class and candidate
  cudaEvent_t free_ = nullptr;  // when the last check no longer uses the memory
};

}  // namespace ccore_cuda
