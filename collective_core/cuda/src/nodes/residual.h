// What a rank has not sent yet of its part of one tensor, on the GPU; as src/compress/residual.h of the library for the
// host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "collective_core/collective_core.h"
#include "device_scope.h"
#include "nodes/owned.h"

namespace ccore_cuda::nodes {

class Residual {
 public:
  struct Shape {
    size_t count = 0;  // elements of the tensor
    cc_dtype dtype = CC_FLOAT32;
    size_t begin = 0;  // the part of this rank
    size_t part = 0;
  };

  Residual() = default;
  ~Residual();
  Residual(const Residual&) = delete;
  Residual& operator=(const Residual&) = delete;

  // Zero if it was of another shape, or on another device than the current one; the operations before must have ended
  // then.
  void take_shape(const Shape& shape, cudaStream_t stream);
  const Shape& shape() const { return shape_; }
  uint64_t steps() const { return steps_; }
  // Null: zeros.
  const float* values() const { return steps_ > 0 ? memory_[current_] : nullptr; }
  // Copies the values to host memory.
  void read(float* values) const;
  // Where an operation builds the next values; they count from commit() on, so that a failure changes nothing.
  float* next() { return memory_[1 - current_]; }
  void commit();
  void reset() { steps_ = 0; }

 private:
  void clear();

  Shape shape_;
  std::optional<DeviceContext> device_;  // of the memory
  DeviceBuffer buffer_;
  float* memory_[2] = {nullptr, nullptr};
  int current_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace ccore_cuda::nodes
