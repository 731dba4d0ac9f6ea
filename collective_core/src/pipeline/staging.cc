#include "pipeline/staging.h"

#include <sys/mman.h>
#include <unistd.h>

#include "common/error.h"

namespace ccore {
namespace {

size_t whole_pages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

Staging::Staging(size_t buffers, size_t buffer_bytes)
    : stride_(whole_pages(buffer_bytes)), bytes_(buffers * stride_) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno(format("%zu bytes of staging memory for cpu_reduce", bytes_));
  memory_ = static_cast<std::byte*>(memory);
}

Staging::~Staging() {
  if (memory_) munmap(memory_, bytes_);
}

}  // namespace ccore
