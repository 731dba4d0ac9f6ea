// Device memory of this rank that its peers map, and theirs that this rank maps.
//
// An exported allocation has a number, its place on the board. Each rank's service thread maps what the others export and
// writes on the board where. So the owner waits only for threads and not for the program of its peers, and it knows the
// addresses at which its peers see its memory. No work on the GPU is needed for it, which might wait behind a kernel that
// waits for a peer.
//
// Memory of cudaMalloc() is exported by cudaIpc, whole allocations. Memory of cuMemCreate() is exported by file
// descriptors, as the segments that a buffer touches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver.h"
#include "memory/board.h"
#include "memory/channel_meeting.h"
#include "memory/known_segments.h"
#include "memory/segment_transfer.h"

namespace ccore_cuda {

class Buffers {
 public:
  // processes[r]: a token that is equal for ranks of one process. has_threads_elsewhere: ranks of this process have other
  // devices. descriptors: with a channel to each rank, or with none.
  Buffers(Board* board, int rank, const std::vector<uint64_t>& processes, bool has_threads_elsewhere,
          DescriptorWay descriptors);
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

  // What is located from now on is of a further operation. A captured one keeps the addresses in a CUDA graph.
  void begin_operation(bool is_captured);

  // "buffers of all ranks: by cudaIpc, by descriptors, staged", of these what there is; "" before the first one.
  std::string describe() const;
  // Why a rank stages memory of cuMemCreate, the first that did; the same on all ranks. "" if none does.
  std::string notice() const;

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
  // Whether the rank uses segments of this one, or this one those of the rank, at the addresses of their owner.
  bool shares_segments(int rank) const { return is_own_process(rank) && !has_threads_elsewhere_; }
  // Why an allocation has no number: below 0.
  enum Refusal : int { kNoPlace = -1, kNoHandle = -2, kLate = -3, kUnmappable = -4 };
  int export_allocation(const void* base, size_t bytes, int first, int64_t limit_ns);
  int claim_place(const void* base, size_t bytes, int first);
  int free_place(int first) const;
  std::optional<bool> locate_segments(const void* address, size_t bytes, uint64_t* addresses);
  int export_segments(const Segments& segments);
  SegmentsSent send(const Segments& segments, int number, uint32_t state);
  void give_back(const std::vector<int>& numbers);
  void note(Reach reach);
  void note_staged(const Segments& segments, int refusal);
  bool collect(int rank);
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

  const DescriptorWay descriptors_;
  KnownSegments known_segments_;  // of the thread of an operation
  // Of the service thread.
  Arrivals arrivals_;
  std::vector<uint32_t> collected_;  // messages with descriptors, by rank
  // Of the segments that this rank maps; 0: none. As `addresses` of the board.
  std::vector<size_t> mapped_bytes_;
  size_t& mapped_bytes(int rank, int number) {
    return mapped_bytes_[static_cast<size_t>(rank) * kMostBuffers + static_cast<size_t>(number)];
  }
};

}  // namespace ccore_cuda
