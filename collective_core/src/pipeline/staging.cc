#include "pipeline/staging.h"

#include <sys/mman.h>

#include "common/error.h"
#include "common/pages.h"

namespace ccore {

Staging::Staging(size_t buffers, size_t buffer_bytes) : stride_(whole_pages(buffer_bytes)), bytes_(buffers * stride_) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno(format("%zu bytes of staging memory for cpu_reduce", bytes_));
  memory_ = static_cast<std::byte*>(memory);
}

Staging::~Staging() {
  if (memory_) munmap(memory_, bytes_);
}

}  // namespace ccore
