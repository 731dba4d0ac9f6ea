// A collective of device memory through pinned host memory: copy, the collective of the library for the host, copy back.
#pragma once

#include "device/part.h"
#include "nodes/owned.h"

namespace ccore_cuda::entry {

class StagingCopies {
 public:
  // comm outlives this.
  StagingCopies(cc_comm* comm, int64_t timeout_ms) : comm_(comm), timeout_ms_(timeout_ms) {}
  // Waits for the copies to the device.
  ~StagingCopies();
  StagingCopies(const StagingCopies&) = delete;
  StagingCopies& operator=(const StagingCopies&) = delete;

  // Blocks until the host has the result; the copy to the device is queued on the stream.
  void run(const ccore::DeviceCall& call, int rank, int size);

 private:
  cc_comm* const comm_;
  const int64_t timeout_ms_;
  nodes::PinnedBuffer send_;
  nodes::PinnedBuffer recv_;
  nodes::Event down_;
  nodes::Event up_;
  bool copies_up_ = false;  // up_ has been recorded
};

}  // namespace ccore_cuda::entry
