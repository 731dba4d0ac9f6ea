// All-reduce of device memory on the CPUs: while one chunk is reduced with the other ranks, copies bring the next ones
// to the host and the ones before back to the device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collective_core/collective_core.h"
#include "engine/communicator.h"
#include "pipeline/copy_engine.h"
#include "pipeline/staging.h"

namespace ccore {

struct CpuReduceSettings {
  size_t chunk_bytes;
  size_t chunks;  // in flight at most: one staging buffer each
};
// Of the options, else the environment, else the defaults. Throws CC_ERROR_INVALID_ARGUMENT.
CpuReduceSettings cpu_reduce_settings_from(const cc_cpu_reduce_options* options);

class CpuReduce {
 public:
  // The communicator is not touched but by run.
  CpuReduce(Communicator* communicator, const CpuReduceSettings& settings, std::unique_ptr<CopyEngine> engine);
  ~CpuReduce();
  CpuReduce(const CpuReduce&) = delete;
  CpuReduce& operator=(const CpuReduce&) = delete;

  // timeout_ms 0: the communicator's. Returns with no copy under way, or throws; see drain.
  void run(const void* device_send, void* device_recv, size_t count, cc_dtype dtype, cc_redop op, int64_t timeout_ms);
  bool running() const { return running_.load(std::memory_order_acquire); }

 private:
  // Whether no copy is under way, after one look at each.
  bool settled();
  // After a failure: waits for the copies under way, but not for ever.
  void drain();

  Communicator* communicator_;
  CpuReduceSettings settings_;
  Staging staging_;
  std::vector<StagingSlot> slots_;
  std::unique_ptr<CopyEngine> engine_;  // ends before its memory
  std::atomic<bool> running_{false};
};

}  // namespace ccore
