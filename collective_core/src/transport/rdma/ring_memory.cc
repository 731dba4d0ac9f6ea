#include "transport/rdma/ring_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "common/error.h"
#include "common/unique_fd.h"

namespace ccore {
RingMemory::RingMemory(const RdmaRails& rails, size_t size, bool remote) : size_(size) {
  const UniqueFd file(memfd_create("collective_core rdma", MFD_CLOEXEC));
  if (!file || ftruncate(file.get(), static_cast<off_t>(size)) != 0) throw_errno("memory for an RDMA ring");
  void* place = mmap(nullptr, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) throw_errno("memory for an RDMA ring");
  data_ = static_cast<std::byte*>(place);
  for (std::byte* half : {data_, data_ + size}) {
    if (mmap(half, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0) == MAP_FAILED) {
      const int error = errno;
      munmap(data_, 2 * size);
      throw Error(CC_ERROR_SYSTEM, "memory for an RDMA ring: " + errno_text(error));
    }
  }
  try {
    regions_.emplace(rails, data_, size, ibv::kAccessLocalWrite | (remote ? ibv::kAccessRemoteWrite : 0));
  } catch (...) {
    munmap(data_, 2 * size);
    throw;
  }
  for (const auto& rail : rails) rail->count_ring(size);
}

RingMemory::~RingMemory() {
  for (const auto& rail : regions_->rails()) rail->uncount_ring(size_);
  regions_.reset();
  munmap(data_, 2 * size_);
}

}  // namespace ccore
