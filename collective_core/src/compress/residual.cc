#include "compress/residual.h"

#include <sys/mman.h>

#include <cstring>
#include <limits>
#include <new>

#include "common/caches.h"
#include "common/dtype.h"
#include "common/log.h"

namespace ccore {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void FloatBuffer::assign_zeros(size_t count) {
  data_.reset();
  size_ = 0;
  if (count == 0) return;
  if (count > (std::numeric_limits<size_t>::max() - kHugePage) / sizeof(float)) throw std::bad_alloc();
  const size_t bytes = count * sizeof(float);
  const size_t unit = bytes >= 2 * kHugePage ? kHugePage : kCacheLine;
  const size_t whole = (bytes + unit - 1) / unit * unit;
  void* memory = std::aligned_alloc(unit, whole);
  if (!memory) throw std::bad_alloc();
  data_.reset(static_cast<float*>(memory));
  // A wish: where the system has no huge pages, small ones do.
  if (unit == kHugePage) madvise(memory, whole, MADV_HUGEPAGE);
  size_ = count;
  clear();
}

void FloatBuffer::clear() {
  if (size_ > 0) std::memset(data_.get(), 0, size_ * sizeof(float));
}

void Residual::take_shape(const ResidualShape& shape) {
  if (shape == shape_) return;
  if (steps_ > 0) {
    log(LogLevel::warn,
        "a residual of %zu %s elements (%zu of them here, from %zu on) is used for %zu %s elements (%zu, from "
        "%zu on): what it held is dropped",
        shape_.count, dtype_name(shape_.dtype), shape_.shard, shape_.begin, shape.count, dtype_name(shape.dtype),
        shape.shard, shape.begin);
  }
  shape_ = shape;
  values_.assign_zeros(shape.shard);
  next_.assign_zeros(shape.shard);
  steps_ = 0;
}

void Residual::commit() {
  values_.swap(next_);
  ++steps_;
}

void Residual::reset() {
  values_.clear();
  steps_ = 0;
}

}  // namespace ccore
