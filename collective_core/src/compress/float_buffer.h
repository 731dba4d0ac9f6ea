// Floats that are passed over as a whole: on a boundary of a cache line, and of long ones in huge pages, which
// spare a look-up of the page for every 1024 elements.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace ccore {

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

}  // namespace ccore
