// The shared memory of one node: a doorbell per rank, a byte ring per ordered pair of ranks, and the arena in which
// collectives exchange data directly (arena.h).
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/unique_fd.h"
#include "transport/progress.h"

namespace ccore {

// What a rank needs to know to map the segment that another process made.
struct SegmentName {
  int64_t pid;
  int32_t fd;
  int32_t nlocal;
  uint64_t ring_bytes;
  uint64_t slot_bytes;  // of the arena; 0: it has none
  std::array<unsigned char, 32> nonce;
};

struct RingControl {
  alignas(64) std::atomic<uint64_t> head{0};  // bytes ever written; only the sender stores
  alignas(64) std::atomic<uint64_t> tail{0};  // bytes ever consumed; only the receiver stores
};

// One mapped ring. The data is mapped twice in a row, so any range inside it is contiguous in memory.
struct Ring {
  RingControl* control = nullptr;
  std::byte* data = nullptr;
  size_t size = 0;
};

class Segment {
 public:
  // Makes an anonymous file (memfd: no size limit of /dev/shm, nothing to unlink) and maps its first part.
  static Segment create(int nlocal, size_t ring_bytes, size_t slot_bytes);
  // Maps a segment through /proc/<pid>/fd. Throws CC_ERROR_SYSTEM if it cannot be opened or is another one:
  // in another pid namespace the same number is another process, and the nonce tells.
  static Segment open(const SegmentName& name);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  SegmentName name() const;
  Doorbell* doorbell(int local_rank) const;
  // Bytes from one local rank to another. The caller unmaps it.
  Ring map_ring(int from, int to) const;
  static void unmap_ring(const Ring& ring);
  // All of the arena, zeros at first; null if there is none. Mapped as long as the segment lives.
  std::byte* arena() const { return arena_; }
  // The mappings stay; no process can open the segment any more.
  void close_fd() { fd_.reset(); }

 private:
  Segment(UniqueFd fd, const SegmentName& name);
  size_t ring_index(int from, int to) const;
  void map_arena();

  UniqueFd fd_;
  SegmentName name_;
  std::byte* base_ = nullptr;  // header, doorbells, ring controls
  size_t base_bytes_ = 0;
  std::byte* arena_ = nullptr;
};

}  // namespace ccore
