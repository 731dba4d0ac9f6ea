#include "compress/float_buffer.h"

#include <sys/mman.h>

#include <cstring>
#include <limits>
#include <new>

#include "common/cache_line.h"

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

}  // namespace ccore
