#include "host/host_pool.h"

namespace ccore_cuda {
namespace {

// The largest block of a chunk is that of two ranks, rounded up to a pack.
constexpr size_t kResultBytes = kFoldChunkBytes / 2 + 4096;
constexpr size_t kSlotBytes = kFoldChunkBytes + kResultBytes;
constexpr size_t kRankBytes = kFoldSlots * kSlotBytes;

size_t words_bytes(int ranks) {
  return (sizeof(FoldFailure) + sizeof(FoldWords) * static_cast<size_t>(ranks) + 4095) / 4096 * 4096;
}

}  // namespace

HostPool::HostPool(const Meeting& meeting)
    : memory_(meeting, words_bytes(meeting.size()) + kRankBytes * static_cast<size_t>(meeting.size()),
              "host memory for chunks"),
      data_(memory_.get() + words_bytes(meeting.size())) {}

FoldWords* HostPool::words(int rank) const {
  return reinterpret_cast<FoldWords*>(memory_.get() + sizeof(FoldFailure)) + rank;
}

FoldFailure* HostPool::failure() const { return reinterpret_cast<FoldFailure*>(memory_.get()); }

char* HostPool::input(int rank, int slot) const {
  return data_ + static_cast<size_t>(rank) * kRankBytes + static_cast<size_t>(slot) * kSlotBytes;
}

char* HostPool::result(int rank, int slot) const { return input(rank, slot) + kFoldChunkBytes; }

}  // namespace ccore_cuda
