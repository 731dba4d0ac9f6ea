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
  // processes[r]: a token that is equal for ranks of one process.
  Buffers(Board* board, int rank, const std::vector<uint64_t>& processes);
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // Exports an allocation and waits until all peers have mapped it. -1 if it or a peer cannot.
  int export_allocation(const void* base, size_t bytes);
  // Stores in addresses[rank] where each peer finds the memory. False if they cannot. Exports the allocation the first
  // time it is seen.
  bool locate(const void* address, size_t bytes, uint64_t* addresses);
  // The same for an allocation with a known number.
  void addresses_of(int number, uint64_t* addresses) const;

  // Maps what peers have exported since. By the service thread.
  void map_news();
  // Tells the peers that this rank's memory goes, and waits a moment for them to unmap it.
  void leave();

  // Memory of another rank as this rank sees it.
  char* mapped(int rank, int number) const;

 private:
  bool is_own_process(int rank) const;
  void unmap(int rank);
  bool wait_for_peers(uint32_t exported) const;

  Board* const board_;
  const int rank_, size_;
  const std::vector<uint64_t> processes_;
  bool crosses_processes_ = false;
  std::mutex mutex_;  // of exporting
  std::unordered_map<uint64_t, int> numbers_;  // from Allocation::number; -1: cannot be exported
};

}  // namespace ccore_cuda
