#include "common/process_id.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "common/pages.h"

namespace ccore {
namespace {

// A page that the kernel empties in a forked child (madvise(2), MADV_WIPEONFORK), however the fork was made; null where
// there is no such thing.
std::atomic<pid_t>* wiped_on_fork() {
  const auto bytes = page_bytes();
  void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (madvise(page, bytes, MADV_WIPEONFORK) == 0) return static_cast<std::atomic<pid_t>*>(page);
  munmap(page, bytes);
  return nullptr;
}

}  // namespace

pid_t process_id() {
  static std::atomic<pid_t>* const remembered = wiped_on_fork();
  if (!remembered) return getpid();
  pid_t id = remembered->load(std::memory_order_relaxed);
  if (id == 0) {
    id = getpid();
    remembered->store(id, std::memory_order_relaxed);
  }
  return id;
}

}  // namespace ccore
