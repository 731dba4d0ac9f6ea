// The collectives of a communicator on the memory of CUDA devices.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "collective_core/collective_core.h"
#include "collectives/operation.h"
#include "device/part.h"
#include "engine/communicator.h"

namespace ccore {

// The ranks meet on the host at their first operation on device memory. From then on each has a handle of the CUDA
// library, or all of them have the reason why there is none. Every operation counts as one of the communicator: it has a
// number there, and a rank that waits in an operation on host memory finds out that another one is in this.
class DeviceSide {
 public:
  // whole: outlives this.
  explicit DeviceSide(Communicator* whole);
  // No operation may run.
  ~DeviceSide();
  DeviceSide(const DeviceSide&) = delete;
  DeviceSide& operator=(const DeviceSide&) = delete;

  // elements: as in Communicator::run.
  void run(Operation operation, const DeviceCall& call, uint64_t elements);
  // Makes the description of the operation on host memory that on device memory. Throws why there is no handle.
  void describe(const Operation& operation, cc_description* description);
  // Makes the first error of what was queued that of the communicator.
  void poll();
  // Ends what was queued, and what runs through host memory. From any thread.
  void abort();

 private:
  void meet(int64_t timeout_ms);

  Communicator* whole_;
  std::mutex meeting_;  // held while the ranks meet
  std::mutex mutex_;    // of the pointers below; never held while anything waits
  bool has_met_ = false;
  std::string refusal_;
  const DevicePart* part_ = nullptr;
  std::unique_ptr<cc_comm> own_;  // of the same ranks, for the handle's meetings
  void* handle_ = nullptr;
};

}  // namespace ccore
