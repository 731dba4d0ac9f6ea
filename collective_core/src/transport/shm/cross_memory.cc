#include "transport/shm/cross_memory.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "common/error.h"
#include "common/process_id.h"

// Of Linux 5.3, on all architectures; older headers of the C library do not have it.
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace ccore {
namespace {

// moved: what the call returned; error: errno after it.
[[noreturn]] void fail(const std::string& name, const char* call, ssize_t moved, int error) {
  const std::string why = moved < 0 ? errno_text(error) : "nothing was copied";
  throw Error(CC_ERROR_REMOTE, name + ": its memory cannot be reached (" + call + ": " + why + ")");
}

// Calls until all is copied: one may end early without an error.
template <typename Call>
void copy_all(const std::string& name, const char* call_name, Call call, std::byte* here, uint64_t there,
              size_t bytes) {
  while (bytes > 0) {
    const iovec local{here, bytes};
    const iovec remote{reinterpret_cast<void*>(there), bytes};
    const ssize_t moved = call(&local, &remote);
    if (moved <= 0) fail(name, call_name, moved, errno);
    here += moved;
    there += static_cast<uint64_t>(moved);
    bytes -= static_cast<size_t>(moved);
  }
}

}  // namespace

UniqueFd open_process(pid_t pid) {
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));  // it is closed on exec
  if (!fd) throw_errno("pidfd_open");
  return fd;
}

void CrossMemory::read(int rank, std::byte* to, uint64_t from, size_t bytes) const {
  const pid_t pid = peer(rank).pid;
  const auto call = [pid](const iovec* local, const iovec* remote) {
    return process_vm_readv(pid, local, 1, remote, 1, 0);
  };
  copy_all(peer(rank).name, "process_vm_readv", call, to, from, bytes);
}

void CrossMemory::write(int rank, uint64_t to, const std::byte* from, size_t bytes) const {
  const pid_t pid = peer(rank).pid;
  const auto call = [pid](const iovec* local, const iovec* remote) {
    return process_vm_writev(pid, local, 1, remote, 1, 0);
  };
  // The call does not write to what is here; an iovec cannot say so.
  copy_all(peer(rank).name, "process_vm_writev", call, const_cast<std::byte*>(from), to, bytes);
}

bool CrossMemory::lives(int rank) const {
  pollfd ended{peer(rank).process.get(), POLLIN, 0};
  return poll(&ended, 1, 0) <= 0;
}

void CrossMemory::check_all_live() const {
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank].process && !lives(static_cast<int>(rank))) {
      throw Error(CC_ERROR_REMOTE, peers_[rank].name + " died");
    }
  }
}

std::byte* CrossMemory::scratch(size_t bytes) {
  if (!scratch_) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw_errno("mmap");
    scratch_ = {static_cast<std::byte*>(memory), Unmap{bytes}};
  }
  if (scratch_.get_deleter().bytes < bytes) throw Error(CC_ERROR_INTERNAL, "the scratch memory is too small");
  return scratch_.get();
}

void CrossMemory::Unmap::operator()(std::byte* memory) const { munmap(memory, bytes); }

bool kernel_copies(std::initializer_list<const std::byte*> ends) {
  std::array<std::byte, 4> copies;
  std::array<iovec, 4> remote;
  size_t count = 0;
  for (const std::byte* end : ends) {
    // The call only reads there; an iovec cannot say so. Each place costs it a third of a microsecond.
    const iovec place{const_cast<std::byte*>(end), 1};
    const auto is_place = [&](const iovec& other) { return other.iov_base == place.iov_base; };
    if (std::none_of(remote.begin(), remote.begin() + count, is_place)) remote[count++] = place;
  }
  const iovec local{copies.data(), count};
  return process_vm_readv(process_id(), &local, 1, remote.data(), count, 0) == static_cast<ssize_t>(count);
}

}  // namespace ccore
