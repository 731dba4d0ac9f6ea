// The memory of other processes of this host, which the kernel copies from and to (process_vm_readv, process_vm_writev:
// "cross memory attach"). Any memory will do, and nothing of it is mapped here.
//
// These calls name a process by its number, which is free for another process once its owner has died and its parent
// has taken note. They know no pidfd (Linux 6.18), and /proc/PID/mem, which holds on to the process, copies everything
// twice. So every peer has a pidfd, opened before the proof that the number is the peer's (engine/cross_memory_probe.h),
// and is seen to live by it before each operation and every megabyte in it. Numbers are given out in turn: in the
// meantime, which is less than a millisecond, a system would have to start as many processes as it has numbers. A peer
// that calls exec() keeps its number, but not its connections, which the monitor sees.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "common/unique_fd.h"

namespace ccore {

// A process that lives now. Throws CC_ERROR_SYSTEM.
UniqueFd open_process(pid_t pid);

class CrossMemory {
 public:
  struct Peer {
    pid_t pid = 0;
    UniqueFd process;  // a pidfd
    std::string name;  // "rank 2 (host gpu01, pid 4711)"
  };
  // By rank; nothing at the own place.
  explicit CrossMemory(std::vector<Peer> peers) : peers_(std::move(peers)) {}

  // Bytes at an address in the process of that rank. A copy that fails or ends early throws CC_ERROR_REMOTE, naming the
  // rank; how much was copied before is not known then.
  void read(int rank, std::byte* to, uint64_t from, size_t bytes) const;
  void write(int rank, uint64_t to, const std::byte* from, size_t bytes) const;
  // Whether the process of that rank has not ended.
  bool lives(int rank) const;
  // Throws CC_ERROR_REMOTE if one of them has ended.
  void check_all_live() const;

  // Bytes for copies on their way, at an address that is a multiple of the page size; from the first call on, and no
  // more afterwards. For the operation that runs.
  std::byte* scratch(size_t bytes);

 private:
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* memory) const;
  };
  const Peer& peer(int rank) const { return peers_[static_cast<size_t>(rank)]; }

  std::vector<Peer> peers_;
  std::unique_ptr<std::byte, Unmap> scratch_;
};

// Whether the kernel copies from buffers of this process, by their first and last bytes, 1 to 4 of them: it does not
// where a device is mapped.
bool kernel_copies(std::initializer_list<const std::byte*> ends);

}  // namespace ccore
