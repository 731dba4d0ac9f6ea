#include "transport/shm/memory_file.h"

#include <sys/mman.h>

#include <cerrno>

#include "common/error.h"

namespace ccore {
namespace {

// That nothing in it is ever run. Linux has it since 6.3, and up to 6.5 hosts with vm.memfd_noexec=2 make no others.
constexpr unsigned kNoExecSeal = 0x0008U;

}  // namespace

UniqueFd make_memory_file(const char* name) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | kNoExecSeal));
  if (!fd && errno == EINVAL) fd = UniqueFd(memfd_create(name, MFD_CLOEXEC));
  if (!fd) throw_errno("memfd_create");
  return fd;
}

}  // namespace ccore
