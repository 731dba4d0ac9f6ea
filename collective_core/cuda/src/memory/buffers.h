// Device memory of this rank that its peers map, and theirs that this rank maps.
//
// An exported allocation has a number, its place on the board. Each rank's service thread maps what the others export and
// writes on the board where. So the owner waits only for threads and not for the program of its peers, and it knows the
// addresses at which its peers see its memory. No work on the GPU is needed for it, which might wait behind a kernel that
// waits for a peer.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "driver.h"
#include "memory/board.h"

namespace ccore_cuda {

class Buffers {
 public:
  // processes[r]: a token that is equal for ranks of one process. has_threads_elsewhere: ranks of this process have other
  // devices.
  Buffers(Board* board, int rank, const std::vector<uint64_t>& processes, bool has_threads_elsewhere);
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // Exports memory of the library itself and waits until all peers have mapped it, at most limit_ns. Throws if they do
  // not.
  int export_own(const void* base, size_t bytes, int64_t limit_ns);
  // Stores in addresses[rank] where each peer finds the memory. False if they cannot. Exports the allocation the first
  // time it is seen.
  bool locate(const void* address, size_t bytes, uint64_t* addresses);
  // The same for an allocation with a known number.
  void addresses_of(int number, uint64_t* addresses) const;

  // Maps what peers have exported since. By the service thread.
  void map_news();
  // Takes back allocations that the application has freed, because peers that map them keep their memory, and unmaps what
  // peers have taken back. By the thread of an operation, when the one before has ended: CUDA may let such calls wait for
  // the GPU, and other threads wait for them.
  void tend();
  // Tells the peers that this rank's memory goes, and waits a moment for them to unmap it.
  void leave();
  // The first peer that has left, or -1.
  int first_that_left() const;

  // Memory of another rank as this rank sees it.
  char* mapped(int rank, int number) const;

 private:
  bool is_own_process(int rank) const;
  // Why an allocation has no number: below 0.
  enum Refusal : int { kNoPlace = -1, kNoHandle = -2, kLate = -3, kUnmappable = -4 };
  int export_allocation(const void* base, size_t bytes, int first, int64_t limit_ns);
  int claim_place(const void* base, size_t bytes, int first);
  int free_place(int first) const;
  void take_back_freed();
  void unmap_freed();
  void map(int rank, int number);
  void unmap(int rank, int number);
  bool wait_for_peers(int number, int64_t limit_ns) const;
  bool is_mapped_by_all(int number) const;

  Board* const board_;
  const int rank_, size_;
  const std::vector<uint64_t> processes_;
  const bool has_threads_elsewhere_;
  bool crosses_processes_ = false;
  std::mutex mutex_;  // of what follows and the own places
  struct Known {
    int number;  // below 0: cannot be exported
    uintptr_t base;
  };
  std::unordered_map<uint64_t, Known> known_;  // by Allocation::number
};

}  // namespace ccore_cuda
