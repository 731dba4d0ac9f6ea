// A handle: the ranks of a communicator, their memory, and their operations in order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "agreement.h"
#include "collective_core/collective_core_cuda.h"
#include "collective_core/collective_core_cuda_tuning.h"
#include "failure.h"
#include "host/cpu_fold.h"
#include "host/host_fold.h"
#include "meeting.h"
#include "memory/board.h"
#include "memory/buffers.h"
#include "memory/owned.h"
#include "memory/pinned_mapping.h"
#include "memory/region.h"
#include "memory/staging.h"
#include "paths/exchange_path.h"
#include "paths/kernel_path.h"
#include "paths/stream_path.h"
#include "service.h"
#include "stream_order.h"

namespace ccore_cuda {

class Group {
 public:
  Group(cc_comm* comm, const Wishes& wishes, int64_t timeout_ms);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // way: not kRival. One that the path does not have is taken as kAutomatic.
  void carry_out(const cc_cuda_call& call, Way way);
  // The ways for such a call, first the one that kAutomatic takes. Equal on all ranks.
  std::vector<Way> ways_of(const cc_cuda_call& call) const;
  void exchange(const cc_cuda_transfer* transfers, size_t count, cudaStream_t stream);
  // Of streams and tickets: see cc_cuda_launch.
  StreamOrder& order() { return order_; }
  void wait(int64_t timeout_ms);
  void abort();
  cc_result poll(const char** text);
  const uint64_t* failed_word() const { return failure_->word(); }
  // Throws if the handle has failed, or a peer has destroyed its own.
  void require_peers();

  cc_cuda_path path() const { return agreement_.path; }
  std::string description() const;
  // See cc_cuda_notice.
  std::string notice() const { return buffers_->notice(); }
  bool autotune() const { return agreement_.autotune; }
  int size() const { return meeting_.size(); }
  int rank() const { return meeting_.rank(); }
  const Meeting& meeting() const { return meeting_; }
  int64_t timeout_ns() const { return static_cast<int64_t>(context_.peers.deadline_ns); }

 private:
  void all_reduce(const ReduceCall& call);
  void reduce_scatter(const ReduceCall& call);
  void copy(const CopyCall& call);
  template <typename Body>
  void queue(cudaStream_t stream, Body body);
  void settle();
  void pass_gate(uint64_t call, size_t bytes, cudaStream_t stream, bool captured);
  bool folds_on_cpus(const ReduceCall& call) const;
  void fold_on_cpus(const ReduceCall& call);
  bool folds_on_host(size_t bytes, bool captured) const;
  static void copy_own(const void* send, void* recv, size_t bytes, cudaStream_t stream);
  // Steps of a rank alone.
  void allocate(const Wishes& wishes, int64_t timeout_ms, DescriptorWay descriptors);
  DescriptorWay meet_if_needed(const Wishes& wishes);
  void start_service(uint32_t first_epoch, int64_t timeout_ms);
  void make_waits(uint32_t first_epoch);
  Service::Watched watched(int64_t timeout_ms) const;
  int blocks_that_fit(int wished) const;

  const Meeting meeting_;
  const Agreement agreement_;
  int device_ = 0;
  SharedMapping board_memory_;
  Board* const board_;
  std::unique_ptr<DeviceMemoryBlock> control_;
  std::unique_ptr<MappedHostMemory> words_;
  std::unique_ptr<FailureState> failure_;
  std::unique_ptr<Buffers> buffers_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Regions> regions_;
  std::unique_ptr<PinnedMapping> waits_;  // of streams that wait for each other
  std::unique_ptr<CpuFold> cpu_fold_;
  std::unique_ptr<HostFold> host_fold_;
  std::unique_ptr<Service> service_;  // looks at it
  PathContext context_{};
  std::unique_ptr<KernelPath> kernel_path_;
  std::unique_ptr<ExchangePath> exchange_path_;
  std::unique_ptr<StreamPath> stream_path_;
  StreamOrder order_;
  int64_t tended_ns_ = 0;
  std::mutex mutex_;  // of operations
  std::string description_;
};

}  // namespace ccore_cuda
