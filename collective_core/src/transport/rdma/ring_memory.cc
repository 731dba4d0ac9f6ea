#include "transport/rdma/ring_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "common/error.h"
#include "common/unique_fd.h"

namespace ccore {
namespace {

std::string registration_hint(int error) {
  if (error != ENOMEM && error != EAGAIN && error != EPERM) return "";
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return " (the limit of locked memory is not the cause: the device has no more regions, or its BAR is too small)";
  }
  return format(" (locked memory is limited to %llu KiB; set memlock to unlimited, see `ulimit -l`)",
                static_cast<unsigned long long>(limit.rlim_cur / 1024));
}

}  // namespace

RingMemory::RingMemory(const RdmaDevice& device, size_t size, bool remote) : verbs_(device.verbs()), size_(size) {
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
  errno = 0;
  mr_ = verbs_.reg_mr(device.pd(), data_, size, ibv::kAccessLocalWrite | (remote ? ibv::kAccessRemoteWrite : 0));
  if (!mr_) {
    const int error = errno;
    munmap(data_, 2 * size);
    throw Error(CC_ERROR_SYSTEM, format("cannot register %zu KiB with %s: %s%s", size / 1024, device.text().c_str(),
                                        errno_text(error).c_str(), registration_hint(error).c_str()));
  }
}

RingMemory::~RingMemory() {
  verbs_.dereg_mr(mr_);
  munmap(data_, 2 * size_);
}

}  // namespace ccore
