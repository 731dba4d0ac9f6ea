// all_reduce between GPUs that cannot reach each other's memory: through host memory that all ranks map.
//
// Each rank copies its input into pinned memory, and a kernel adds its block straight from the memory of the others:
// PCIe carries each byte once in each direction, and no CPU takes part. Streams wait for words in host memory in their
// front end. Chunks overlap the copies in both directions and the kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "collective_core/collective_core.h"
#include "driver.h"
#include "host/host_pool.h"
#include "host/host_waits.h"
#include "meeting.h"

namespace ccore_cuda {

class HostFold : public HostWaits {
 public:
  // takes_turns: the ranks are processes that share a GPU without MPS.
  HostFold(const Meeting& meeting, bool takes_turns);
  ~HostFold() override;

  // Collective. The first call that needs memory meets the other ranks on the host. Not during a capture.
  void all_reduce(const char* send, char* recv, size_t count, cc_dtype dtype, cc_redop op, cudaStream_t stream);
  void release() override;
  std::string ranks_behind() const override;
  const char* name() const override { return "all_reduce through host memory"; }

 private:
  struct Part;

  void queue_chunk(const Part& part);
  void await(cudaStream_t stream, uint32_t FoldWords::* word, uint32_t number);
  void announce(cudaStream_t stream, uint32_t FoldWords::* word, uint32_t number);
  void follow(cudaStream_t stream, cudaStream_t leader);

  const Meeting& meeting_;
  const bool takes_turns_;
  std::unique_ptr<HostPool> pool_;
  cudaStream_t in_ = nullptr, fold_ = nullptr, out_ = nullptr;
  cudaEvent_t moment_ = nullptr;
  StreamWords words_;
  std::atomic<uint64_t> chunks_{0};
  std::atomic<HostPool*> shared_{nullptr};  // the pool, once there is one, for other threads
};

}  // namespace ccore_cuda
