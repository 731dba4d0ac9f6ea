// Device memory behind the functions of collective_core.h: on the GPUs of one node; on several nodes over the GPUs inside
// them where that pays; else through pinned host memory.
#pragma once

#include <string>

#include "collective_core/collective_core_cuda.h"
#include "collective_core/collective_core_cuda_nodes.h"
#include "device/part.h"
#include "device_scope.h"
#include "entry/staging_copies.h"
#include "nodes/owned.h"

namespace ccore_cuda::entry {

class Entry {
 public:
  // Collective over comm. Uses the current device.
  explicit Entry(cc_comm* comm);
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  // One at a time.
  ccore::DeviceWay run(const ccore::DeviceCall& call);
  ccore::DeviceWay way_of(const ccore::DeviceCall& call) const;
  // Throws the first error of what was queued.
  void require_sound() const;
  void abort() const;

 private:
  void exchange(const unsigned char* own, unsigned char* all) const;
  // Whether the operation may go over the GPUs inside the nodes: equal on all ranks, and without meeting them.
  bool may_go_between(const ccore::DeviceCall& call) const;
  bool goes_between(const ccore::DeviceCall& call) const;
  void attach_nodes();
  void run_inside(const ccore::DeviceCall& call);
  void reduce_inside(const ccore::DeviceCall& call);
  void exchange_inside(const ccore::DeviceCall& call);

  cc_comm* const comm_;
  const DeviceContext context_;
  int rank_ = 0;
  int size_ = 1;
  int nodes_count_ = 1;
  cc_limits limits_{};
  cc_cuda* inside_ = nullptr;  // null: several nodes, or none of their ways inside can be used
  cc_cuda_nodes* nodes_ = nullptr;  // null: not attached, or refused
  bool may_attach_ = false;  // every rank requests it by CCORE_CUDA_PATH
  bool attached_ = false;  // the ranks have tried
  int slowest_path_ = 0;  // a cc_cuda_path, of the node that all others wait for
  nodes::DeviceBuffer scratch_;
  StagingCopies staging_;
};

}  // namespace ccore_cuda::entry
