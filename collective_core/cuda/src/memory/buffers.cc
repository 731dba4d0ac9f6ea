#include "memory/buffers.h"

#include <time.h>

#include <cstring>

#include "capture_mode.h"
#include "clock.h"
#include "error.h"

namespace ccore_cuda {
namespace {

// A peer whose service thread does not answer within it is slow or dead: the buffer is staged.
constexpr int64_t kMapLimitNs = 2000000000;
constexpr int64_t kLeaveLimitNs = 1000000000;

}  // namespace

Buffers::Buffers(Board* board, int rank, const std::vector<uint64_t>& processes)
    : board_(board), rank_(rank), size_(static_cast<int>(processes.size())), processes_(processes) {
  const size_t bytes = sizeof(char*) * kMostRanks * kMostBuffers;
  check(cudaHostAlloc(reinterpret_cast<void**>(&host_table_), bytes, cudaHostAllocDefault), "allocating a table");
  std::memset(host_table_, 0, bytes);
  check(cudaMalloc(reinterpret_cast<void**>(&device_table_), bytes), "allocating a table on the GPU");
  check(cudaMemset(device_table_, 0, bytes), "clearing a table on the GPU");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

Buffers::~Buffers() {
  for (int rank = 0; rank < size_; ++rank) unmap(rank);
  if (stream_) cudaStreamDestroy(stream_);
  cudaFree(device_table_);
  cudaFreeHost(host_table_);
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
  bool crosses_processes = false;
  for (const uint64_t process : processes_) {
    crosses_processes = crosses_processes || process != processes_[static_cast<size_t>(rank_)];
  }
  if (crosses_processes && cudaIpcGetMemHandle(&place.handle, const_cast<void*>(base)) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  host_table_[rank_ * kMostBuffers + static_cast<int>(number)] = static_cast<char*>(const_cast<void*>(base));
  write_table(rank_, static_cast<int>(number), 1);
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
      const uint32_t count = board_->ranks[rank].mapped[rank_].load(std::memory_order_acquire);
      mapped = mapped && count >= exported;
    }
    if (mapped) return true;
    if (now_ns() - begin > kMapLimitNs) return false;
    wait_for_news(board_, seen, 10000000);
  }
}

uint64_t Buffers::locate(const void* address, size_t bytes) {
  const auto allocation = allocation_of(address);
  if (!allocation) return 0;
  const uint64_t offset = reinterpret_cast<uint64_t>(address) - allocation->base;
  if (offset + bytes > allocation->bytes) return 0;
  auto found = numbers_.find(allocation->number);
  if (found == numbers_.end()) {
    const int number = export_allocation(reinterpret_cast<const void*>(allocation->base), allocation->bytes);
    found = numbers_.emplace(allocation->number, number).first;
  }
  return found->second < 0 ? 0 : location_of(static_cast<uint32_t>(found->second), offset);
}

void Buffers::map_news() {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    BoardOfRank& theirs = board_->ranks[rank];
    if (theirs.left.load(std::memory_order_acquire) != 0) {
      if (board_->ranks[rank_].unmapped[rank].load(std::memory_order_relaxed) == 0) {
        unmap(rank);
        board_->ranks[rank_].unmapped[rank].store(1, std::memory_order_release);
        wake_all(board_);
      }
      continue;
    }
    std::atomic<uint32_t>& mapped = board_->ranks[rank_].mapped[rank];
    const uint32_t begin = mapped.load(std::memory_order_relaxed);
    const uint32_t end = theirs.exported.load(std::memory_order_acquire);
    if (begin == end) continue;
    for (uint32_t number = begin; number < end; ++number) {
      const Export& place = theirs.exports[number];
      void* memory = nullptr;
      if (processes_[static_cast<size_t>(rank)] == processes_[static_cast<size_t>(rank_)]) {
        memory = reinterpret_cast<void*>(place.base);
      } else if (cudaIpcOpenMemHandle(&memory, place.handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) {
        cudaGetLastError();
        theirs.refused[number].store(1, std::memory_order_release);
        memory = nullptr;
      }
      host_table_[rank * kMostBuffers + static_cast<int>(number)] = static_cast<char*>(memory);
    }
    write_table(rank, static_cast<int>(begin), static_cast<int>(end - begin));
    mapped.store(end, std::memory_order_release);
    wake_all(board_);
  }
}

// Returns when the table in device memory has it: a header that names the buffer comes later.
void Buffers::write_table(int rank, int first, int count) {
  const int at = rank * kMostBuffers + first;
  check(cudaMemcpyAsync(device_table_ + at, host_table_ + at, sizeof(char*) * static_cast<size_t>(count),
                        cudaMemcpyHostToDevice, stream_),
        "writing a table on the GPU");
  check(cudaStreamSynchronize(stream_), "writing a table on the GPU");
}

void Buffers::unmap(int rank) {
  if (processes_[static_cast<size_t>(rank)] == processes_[static_cast<size_t>(rank_)]) return;
  for (int number = 0; number < kMostBuffers; ++number) {
    char*& memory = host_table_[rank * kMostBuffers + number];
    if (memory) cudaIpcCloseMemHandle(memory);
    memory = nullptr;
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
    if (unmapped) return;
    wait_for_news(board_, seen, 10000000);
  }
}

}  // namespace ccore_cuda
