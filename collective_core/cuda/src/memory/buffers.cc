#include "memory/buffers.h"

#include "capture_mode.h"
#include "clock.h"
#include "error.h"

namespace ccore_cuda {
namespace {

// A peer whose service thread does not answer within it is slow or dead: the buffer is staged.
constexpr int64_t kMapLimitNs = 2000000000;
constexpr int64_t kLeaveLimitNs = 1000000000;
constexpr int64_t kLookNs = 10000000;

}  // namespace

Buffers::Buffers(Board* board, int rank, const std::vector<uint64_t>& processes)
    : board_(board), rank_(rank), size_(static_cast<int>(processes.size())), processes_(processes) {
  for (int other = 0; other < size_; ++other) crosses_processes_ = crosses_processes_ || !is_own_process(other);
}

Buffers::~Buffers() {
  for (int rank = 0; rank < size_; ++rank) unmap(rank);
}

bool Buffers::is_own_process(int rank) const {
  return processes_[static_cast<size_t>(rank)] == processes_[static_cast<size_t>(rank_)];
}

int Buffers::export_allocation(const void* base, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const RelaxedCapture relaxed;
  BoardOfRank& own = board_->ranks[rank_];
  const uint32_t number = own.exported.load(std::memory_order_relaxed);
  if (number >= kMostBuffers) return -1;
  Export& place = own.exports[number];
  place.base = reinterpret_cast<uint64_t>(base);
  place.bytes = bytes;
  if (crosses_processes_ && cudaIpcGetMemHandle(&place.handle, const_cast<void*>(base)) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  own.addresses[rank_][number] = place.base;
  own.exported.store(number + 1, std::memory_order_release);
  wake_all(board_);
  if (!wait_for_peers(number + 1) || own.refused[number].load(std::memory_order_acquire) != 0) return -1;
  return static_cast<int>(number);
}

bool Buffers::wait_for_peers(uint32_t exported) const {
  const int64_t begin = now_ns();
  while (true) {
    const uint32_t seen = board_->news.load(std::memory_order_acquire);
    bool mapped = true;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      mapped = mapped && board_->ranks[rank].mapped[rank_].load(std::memory_order_acquire) >= exported;
    }
    if (mapped) return true;
    if (now_ns() - begin > kMapLimitNs || board_->failed.load(std::memory_order_relaxed) != 0) return false;
    wait_for_news(board_, seen, kLookNs);
  }
}

bool Buffers::locate(const void* address, size_t bytes, uint64_t* addresses) {
  const auto allocation = allocation_of(address);
  if (!allocation) return false;
  const uint64_t offset = reinterpret_cast<uint64_t>(address) - allocation->base;
  if (offset + bytes > allocation->bytes) return false;
  auto found = numbers_.find(allocation->number);
  if (found == numbers_.end()) {
    const int number = export_allocation(reinterpret_cast<const void*>(allocation->base), allocation->bytes);
    found = numbers_.emplace(allocation->number, number).first;
  }
  if (found->second < 0) return false;
  addresses_of(found->second, addresses);
  for (int rank = 0; rank < size_; ++rank) addresses[rank] += offset;
  return true;
}

void Buffers::addresses_of(int number, uint64_t* addresses) const {
  for (int rank = 0; rank < size_; ++rank) addresses[rank] = board_->ranks[rank].addresses[rank_][number];
}

char* Buffers::mapped(int rank, int number) const {
  return reinterpret_cast<char*>(board_->ranks[rank_].addresses[rank][number]);
}

void Buffers::map_news() {
  BoardOfRank& own = board_->ranks[rank_];
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    BoardOfRank& theirs = board_->ranks[rank];
    if (theirs.left.load(std::memory_order_acquire) != 0) {
      if (own.unmapped[rank].load(std::memory_order_relaxed) == 0) {
        unmap(rank);
        own.unmapped[rank].store(1, std::memory_order_release);
        wake_all(board_);
      }
      continue;
    }
    const uint32_t begin = own.mapped[rank].load(std::memory_order_relaxed);
    const uint32_t end = theirs.exported.load(std::memory_order_acquire);
    if (begin == end) continue;
    for (uint32_t number = begin; number < end; ++number) {
      const Export& place = theirs.exports[number];
      void* memory = nullptr;
      if (is_own_process(rank)) {
        memory = reinterpret_cast<void*>(place.base);
      } else if (cudaIpcOpenMemHandle(&memory, place.handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) {
        cudaGetLastError();
        theirs.refused[number].store(1, std::memory_order_release);
        memory = nullptr;
      }
      own.addresses[rank][number] = reinterpret_cast<uint64_t>(memory);
    }
    own.mapped[rank].store(end, std::memory_order_release);
    wake_all(board_);
  }
}

void Buffers::unmap(int rank) {
  if (is_own_process(rank)) return;
  for (uint64_t& address : board_->ranks[rank_].addresses[rank]) {
    if (address) cudaIpcCloseMemHandle(reinterpret_cast<void*>(address));
    address = 0;
  }
}

void Buffers::leave() {
  board_->ranks[rank_].left.store(1, std::memory_order_release);
  wake_all(board_);
  const int64_t begin = now_ns();
  while (now_ns() - begin < kLeaveLimitNs) {
    const uint32_t seen = board_->news.load(std::memory_order_acquire);
    bool unmapped = true;
    for (int rank = 0; rank < size_; ++rank) {
      const BoardOfRank& theirs = board_->ranks[rank];
      if (rank == rank_ || theirs.left.load(std::memory_order_acquire) != 0) continue;
      unmapped = unmapped && theirs.unmapped[rank_].load(std::memory_order_acquire) != 0;
    }
    if (unmapped || board_->failed.load(std::memory_order_relaxed) != 0) return;
    wait_for_news(board_, seen, kLookNs);
  }
}

}  // namespace ccore_cuda
