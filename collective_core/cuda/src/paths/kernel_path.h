// Kernels that wait for the words of peers: packets for small messages and for host memory, peers' buffers for large.
#pragma once

#include "paths/path.h"

namespace ccore_cuda {

class KernelPath {
 public:
  explicit KernelPath(const PathContext* context) : context_(*context) {}

  void all_reduce(const ReduceCall& call);
  void reduce_scatter(const ReduceCall& call);  // count: of the result
  void copy(const CopyCall& call);

 private:
  Spread spread(size_t bytes) const;
  size_t packet_capacity() const;
  int most_blocks(size_t bytes) const;  // of an operation on so many bytes
  bool goes_in_packets(Way way, size_t bytes) const;
  bool fits_packets(Way way, size_t bytes) const;
  void reduce_by_packets(const ReduceCall& call, size_t stride, Kind kind);
  void reduce_by_slots(const ReduceCall& call);
  void copy_by_packets(const CopyCall& call);

  const PathContext& context_;
};

}  // namespace ccore_cuda
