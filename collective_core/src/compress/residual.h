// What a rank has not sent yet of its shard of one tensor, kept from one operation to the next.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "collective_core/collective_core.h"
#include "compress/error_feedback.h"

namespace ccore {

// Floats that are passed over as a whole: on a boundary of a cache line, and of long ones in huge pages, which
// spare a look-up of the page for every 1024 elements.
class FloatBuffer {
 public:
  // `count` zeros instead of what it held.
  void assign_zeros(size_t count);
  void clear();  // to zero
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  size_t size() const { return size_; }
  void swap(FloatBuffer& other) {
    data_.swap(other.data_);
    std::swap(size_, other.size_);
  }

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  std::unique_ptr<float, Free> data_;
  size_t size_ = 0;
};

// What a residual belongs to: another tensor, or another sharing of it among ranks, has another one.
struct ResidualShape {
  size_t count = 0;  // elements of the tensor
  cc_dtype dtype = CC_FLOAT32;
  size_t begin = 0;  // the shard of this rank; empty if it owns none
  size_t shard = 0;

  bool operator==(const ResidualShape& other) const {
    return count == other.count && dtype == other.dtype && begin == other.begin && shard == other.shard;
  }
};

class Residual {
 public:
  // Zero if it was of another shape; says so in the log if that lost something.
  void take_shape(const ResidualShape& shape);
  const ResidualShape& shape() const { return shape_; }
  uint64_t steps() const { return steps_; }  // operations that it went through since it was zero

  const FloatBuffer& values() const { return values_; }
  // Where an operation builds the next values; they count from commit() on, so that a failure changes nothing.
  float* next() { return next_.data(); }
  void commit();
  void reset();

  CompressScratch scratch;
  std::vector<std::byte> payloads;
  std::atomic_flag in_use = ATOMIC_FLAG_INIT;

 private:
  ResidualShape shape_;
  FloatBuffer values_;
  FloatBuffer next_;
  uint64_t steps_ = 0;
};

}  // namespace ccore
