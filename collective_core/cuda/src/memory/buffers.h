// Device memory of this rank that its peers map, and theirs that this rank maps.
//
// An exported allocation has a number, its place on the board. Each rank's service thread maps what the others export,
// so that the owner only waits for threads and not for the program of its peers. Kernels look up numbers in a table in
// device memory.
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
  // Where peers find `bytes` at the address; 0 if they cannot. Exports the allocation the first time it is seen.
  uint64_t locate(const void* address, size_t bytes);

  // Maps what peers have exported since. By the service thread.
  void map_news();
  // Tells the peers that this rank's memory goes, and waits a moment for them to unmap it.
  void leave();

  char* mapped(int rank, int buffer) const { return host_table_[rank * kMostBuffers + buffer]; }
  char* const* device_table() const { return device_table_; }

 private:
  void unmap(int rank);
  void write_table(int rank, int first, int count);
  bool wait_for_peers(uint32_t exported) const;

  Board* const board_;
  const int rank_, size_;
  const std::vector<uint64_t> processes_;
  char** host_table_ = nullptr;  // pinned
  char** device_table_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::mutex mutex_;  // of exporting
  std::unordered_map<uint64_t, int> numbers_;  // from Allocation::number; -1: cannot be exported
};

}  // namespace ccore_cuda
