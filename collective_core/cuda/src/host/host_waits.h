// Operations whose streams wait for words in host memory: what the service thread needs to end them at their deadline.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "driver.h"

namespace ccore_cuda {

class HostWaits {
 public:
  HostWaits();
  virtual ~HostWaits();
  HostWaits(const HostWaits&) = delete;
  HostWaits& operator=(const HostWaits&) = delete;

  // By the service thread: whether the operation that a stream is in has waited for longer than that. Its deadline
  // begins when its stream begins to wait, not when it was queued.
  bool is_overdue(int64_t timeout_ns);
  // Whether all that was queued has ended.
  bool is_idle() const;
  // Lets the streams of this rank run to the end of what is queued; its results are not valid. From any thread; live
  // peers may overwrite the words, so that this is repeated.
  virtual void release() = 0;
  // "rank 1, rank 3": the ranks that have not come as far as this rank has. From any thread.
  virtual std::string ranks_behind() const = 0;
  virtual const char* name() const = 0;

 protected:
  // Before and after what an operation queues.
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream);

 private:
  struct Words;

  Words* words_ = nullptr;  // in pinned host memory
  StreamWords list_;
  std::atomic<uint32_t> queued_{0};
  uint32_t seen_ = 0;
  int64_t seen_ns_ = 0;
};

}  // namespace ccore_cuda
