// The stages inside a node: its sum to the owners of the parts, and the parts from their owners to its ranks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "collective_core/collective_core_cuda.h"
#include "nodes/owned.h"
#include "nodes/places.h"

namespace ccore_cuda::nodes {

class Inside {
 public:
  // Collective over the node. `places` must outlive it.
  explicit Inside(const Places& places);
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  // Afterwards recv has the node's reduction at this rank's part, if it owns one; elsewhere anything. In place: send ==
  // recv. Without other ranks on the node nothing is done, and the part is still in send.
  void reduce(const char* send, char* recv, size_t count, cc_dtype dtype, cc_redop op, cudaStream_t stream);
  // Afterwards recv has all parts.
  void share(char* recv, size_t count, cc_dtype dtype, cudaStream_t stream);
  // Throws the error that the device has met.
  void check() const;
  void abort() const;
  // The cc_cuda_path of the node's ranks; CC_CUDA_PATH_AUTO if this rank is alone.
  int path() const { return path_; }

 private:
  bool is_even(size_t count) const;
  char* spread(size_t count, size_t element);

  const Places& places_;
  cc_cuda* handle_ = nullptr;
  int path_ = CC_CUDA_PATH_AUTO;
  DeviceBuffer padded_;  // parts of equal size
};

}  // namespace ccore_cuda::nodes
