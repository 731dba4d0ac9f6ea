#include "memory/buffers.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "capture_mode.h"
#include "clock.h"
#include "error.h"

namespace ccore_cuda {
namespace {

// A peer whose service thread does not answer within it is slow or dead: the buffer is staged.
constexpr int64_t kMapLimitNs = 2000000000;
constexpr int64_t kLeaveLimitNs = 1000000000;
constexpr int64_t kLookNs = 10000000;
// The first places are kept for the library's own memory, without which no operation works.
constexpr int kOwnPlaces = 32;
// Of the others, segments take at most so many: each buffer of another extent has an export of its own.
constexpr size_t kMostSegmentExports = 320;

}  // namespace

Buffers::Buffers(Board* board, int rank, const std::vector<uint64_t>& processes, bool has_threads_elsewhere,
                 DescriptorWay descriptors)
    : board_(board),
      rank_(rank),
      size_(static_cast<int>(processes.size())),
      processes_(processes),
      has_threads_elsewhere_(has_threads_elsewhere),
      descriptors_(std::move(descriptors)),
      arrivals_(descriptors_.driver.get()),
      collected_(processes.size()),
      mapped_bytes_(processes.size() * kMostBuffers) {
  for (int other = 0; other < size_; ++other) crosses_processes_ = crosses_processes_ || !is_own_process(other);
}

Buffers::~Buffers() {
  for (int rank = 0; rank < size_; ++rank) {
    for (int number = 0; number < kMostBuffers; ++number) unmap(rank, number);
  }
}

bool Buffers::is_own_process(int rank) const {
  return processes_[static_cast<size_t>(rank)] == processes_[static_cast<size_t>(rank_)];
}

// A place that no peer maps any more.
int Buffers::free_place(int first) const {
  for (int number = first; number < kMostBuffers; ++number) {
    const uint32_t state = board_->ranks[rank_].states[number].load(std::memory_order_relaxed);
    bool is_free = state % 2 == 0;
    for (int rank = 0; rank < size_ && is_free; ++rank) {
      is_free = rank == rank_ || board_->ranks[rank].seen[rank_][number].load(std::memory_order_acquire) == state;
    }
    if (is_free) return number;
  }
  return -1;
}

int Buffers::claim_place(const void* base, size_t bytes, int first) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int number = free_place(first);
  if (number < 0) return kNoPlace;
  BoardOfRank& own = board_->ranks[rank_];
  Export& place = own.exports[number];
  place.kind = ExportKind::kIpc;
  place.base = reinterpret_cast<uint64_t>(base);
  place.bytes = bytes;
  if (crosses_processes_ && cudaIpcGetMemHandle(&place.handle, const_cast<void*>(base)) != cudaSuccess) {
    cudaGetLastError();
    return kNoHandle;
  }
  own.addresses[rank_][number] = place.base;
  own.states[number].fetch_add(1, std::memory_order_release);
  return number;
}

int Buffers::export_allocation(const void* base, size_t bytes, int first, int64_t limit_ns) {
  const RelaxedCapture relaxed;
  const int number = claim_place(base, bytes, first);
  if (number < 0) return number;
  wake_all(board_);
  if (!wait_for_peers(number, limit_ns)) return kLate;
  return is_mapped_by_all(number) ? number : kUnmappable;
}

int Buffers::export_own(const void* base, size_t bytes, int64_t limit_ns) {
  const int number = export_allocation(base, bytes, 0, limit_ns);
  switch (number) {
    case kNoPlace:
      throw Error(CC_ERROR_SYSTEM, "the table of memory that peers map is full");
    case kNoHandle:
      throw Error(CC_ERROR_SYSTEM, "memory of this rank cannot be shared with other processes (cudaIpcGetMemHandle)");
    case kLate:
      throw Error(CC_ERROR_TIMEOUT, "a peer did not map the memory of this rank in time");
    case kUnmappable:
      throw Error(CC_ERROR_SYSTEM, "a peer could not map the memory of this rank (cudaIpcOpenMemHandle)");
    default:
      return number;
  }
}

bool Buffers::wait_for_peers(int number, int64_t limit_ns) const {
  const int64_t begin = now_ns();
  const uint32_t state = board_->ranks[rank_].states[number].load(std::memory_order_relaxed);
  while (true) {
    const uint32_t news = board_->news.load(std::memory_order_acquire);
    bool seen = true;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      seen = seen && board_->ranks[rank].seen[rank_][number].load(std::memory_order_acquire) == state;
    }
    if (seen) return true;
    if (now_ns() - begin > limit_ns || board_->failed.load(std::memory_order_relaxed) != 0) return false;
    wait_for_news(board_, news, kLookNs);
  }
}

bool Buffers::is_mapped_by_all(int number) const {
  for (int rank = 0; rank < size_; ++rank) {
    if (board_->ranks[rank].addresses[rank_][number] == 0) return false;
  }
  return true;
}

bool Buffers::locate(const void* address, size_t bytes, uint64_t* addresses) {
  if (!descriptors_.channels.empty() && !is_plain_memory(address)) {
    const std::optional<bool> located = locate_segments(address, bytes, addresses);
    if (located) return *located;
  }
  const auto allocation = allocation_of(address);
  if (!allocation) return false;
  const uint64_t offset = reinterpret_cast<uint64_t>(address) - allocation->base;
  if (offset + bytes > allocation->bytes) return false;
  int number = -1;
  bool is_known = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(allocation->number);
    is_known = found != known_.end();
    if (is_known) number = found->second.number;
  }
  if (!is_known) {
    const auto* const base = reinterpret_cast<const void*>(allocation->base);
    const bool is_reachable = !has_threads_elsewhere_ || is_plain_memory(base);
    number = is_reachable ? export_allocation(base, allocation->bytes, kOwnPlaces, kMapLimitNs) : kNoHandle;
    // Buffers that were freed since the last sweep may hold the places: this one is staged, and the next finds them free.
    if (number == kNoPlace) take_back_freed();
    note(number < 0 ? Reach::kStaged : Reach::kIpc);
    const std::lock_guard<std::mutex> lock(mutex_);
    known_[allocation->number] = {number, allocation->base};
  }
  if (number < 0) return false;
  addresses_of(number, addresses);
  for (int rank = 0; rank < size_; ++rank) addresses[rank] += offset;
  return true;
}

void Buffers::take_back_freed() {
  bool any = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto known = known_.begin(); known != known_.end();) {
      const auto allocation = allocation_of(reinterpret_cast<const void*>(known->second.base));
      if (allocation && allocation->number == known->first) {
        ++known;
        continue;
      }
      if (known->second.number >= 0) {
        board_->ranks[rank_].states[known->second.number].fetch_add(1, std::memory_order_release);
        any = true;
      }
      known = known_.erase(known);
    }
  }
  if (any) wake_all(board_);
}

// Nothing if it is not memory of cuMemCreate.
std::optional<bool> Buffers::locate_segments(const void* address, size_t bytes, uint64_t* addresses) {
  const RelaxedCapture relaxed;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const KnownSegments::Export* known = known_segments_.find(begin, bytes);
  if (!known) {
    Segments segments = Segments::behind(descriptors_.driver.get(), begin, bytes);
    if (segments.empty()) return std::nullopt;
    const int number = segments.have_descriptors() ? export_segments(segments) : kNoHandle;
    note(number < 0 ? Reach::kStaged : Reach::kDescriptors);
    if (number < 0) note_staged(segments, number);
    // The next sweep may find places, so this is not remembered.
    if (number == kNoPlace) return false;
    known = known_segments_.add(std::move(segments), number);
  }
  if (known->number < 0) return false;
  addresses_of(known->number, addresses);
  for (int rank = 0; rank < size_; ++rank) addresses[rank] += begin - known->segments.base();
  return true;
}

int Buffers::export_segments(const Segments& segments) {
  int number = -1;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    number = free_place(kOwnPlaces);
    if (number < 0) return kNoPlace;
    BoardOfRank& own = board_->ranks[rank_];
    Export& place = own.exports[number];
    place.kind = ExportKind::kSegments;
    place.base = segments.base();
    place.bytes = segments.bytes();
    const SegmentsSent sent = send(segments, number, own.states[number].load(std::memory_order_relaxed) + 1);
    if (sent != SegmentsSent::kAll) return sent == SegmentsSent::kLate ? kLate : kNoHandle;
    own.addresses[rank_][number] = place.base;
    own.states[number].fetch_add(1, std::memory_order_release);
  }
  wake_all(board_);
  const int result = !wait_for_peers(number, kMapLimitNs) ? kLate : is_mapped_by_all(number) ? number : kUnmappable;
  if (result < 0) give_back({number});
  return result;
}

SegmentsSent Buffers::send(const Segments& segments, int number, uint32_t state) {
  std::vector<const DescriptorChannel*> channels;
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_ || shares_segments(rank)) continue;
    channels.push_back(&descriptors_.channels[static_cast<size_t>(rank)]);
    ranks.push_back(rank);
  }
  const int64_t begin = now_ns();
  const auto sent = [&](size_t channel) {
    board_->ranks[rank_].offered[ranks[channel]].fetch_add(1, std::memory_order_release);
  };
  const auto wait = [&] {
    wake_all(board_);
    wait_for_news(board_, board_->news.load(std::memory_order_acquire), kLookNs);
    return now_ns() - begin < kMapLimitNs && board_->failed.load(std::memory_order_relaxed) == 0;
  };
  return send_segments(descriptors_.driver.get(), segments, {static_cast<uint32_t>(number), state}, channels, sent,
                       wait);
}

void Buffers::give_back(const std::vector<int>& numbers) {
  for (const int number : numbers) board_->ranks[rank_].states[number].fetch_add(1, std::memory_order_release);
  if (!numbers.empty()) wake_all(board_);
}

void Buffers::begin_operation(bool is_captured) { known_segments_.begin_operation(is_captured); }

void Buffers::note(Reach reach) {
  board_->ranks[rank_].reached[static_cast<int>(reach)].store(1, std::memory_order_relaxed);
}

// Without numbers: those of ranks that are asked at different moments would differ.
std::string Buffers::describe() const {
  constexpr const char* kNames[kReaches] = {"by cudaIpc", "by descriptors", "staged"};
  std::string text;
  for (int reach = 0; reach < kReaches; ++reach) {
    const bool any = std::any_of(board_->ranks, board_->ranks + size_, [&](const BoardOfRank& rank) {
      return rank.reached[reach].load(std::memory_order_relaxed) != 0;
    });
    if (any) text += (text.empty() ? "buffers of all ranks: " : ", ") + std::string(kNames[reach]);
  }
  return text;
}

void Buffers::note_staged(const Segments& segments, int refusal) {
  uint32_t none = 0;
  if (board_->noticed.load(std::memory_order_relaxed) != 0) return;
  const char* const reason = refusal == kNoHandle     ? "it was not created with a POSIX file descriptor as handle type"
                             : refusal == kLate       ? "a peer did not map it in time"
                             : refusal == kUnmappable ? "a peer could not map it"
                                                      : "the table of memory that peers map is full";
  std::snprintf(board_->ranks[rank_].notice, sizeof board_->ranks[rank_].notice,
                "rank %d stages %zu bytes of memory of cuMemCreate: %s", rank_, segments.bytes(), reason);
  board_->noticed.compare_exchange_strong(none, static_cast<uint32_t>(rank_) + 1, std::memory_order_release);
}

std::string Buffers::notice() const {
  const uint32_t rank = board_->noticed.load(std::memory_order_acquire);
  return rank ? board_->ranks[rank - 1].notice : "";
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
        for (int number = 0; number < kMostBuffers; ++number) unmap(rank, number);
        own.unmapped[rank].store(1, std::memory_order_release);
        wake_all(board_);
      }
      continue;
    }
    bool any = collect(rank);
    for (int number = 0; number < kMostBuffers; ++number) {
      const uint32_t state = theirs.states[number].load(std::memory_order_acquire);
      std::atomic<uint32_t>& seen = own.seen[rank][number];
      // What a peer has taken back waits for tend(); it does not use the place before.
      if (state % 2 == 0 || state == seen.load(std::memory_order_relaxed)) continue;
      map(rank, number);
      seen.store(state, std::memory_order_release);
      any = true;
    }
    if (any) wake_all(board_);
  }
}

// Descriptors that a peer has sent. They were sent before it put their export on the board. True if there were any.
bool Buffers::collect(int rank) {
  if (descriptors_.channels.empty()) return false;
  uint32_t& collected = collected_[static_cast<size_t>(rank)];
  const std::atomic<uint32_t>& offered = board_->ranks[rank].offered[rank_];
  bool any = false;
  while (collected != offered.load(std::memory_order_acquire)) {
    const auto received = descriptors_.channels[static_cast<size_t>(rank)].receive();
    if (!received) break;
    ++collected;
    arrivals_.take(rank, *received);
    any = true;
  }
  return any;
}

void Buffers::tend() {
  const RelaxedCapture relaxed;
  take_back_freed();
  give_back(known_segments_.forget(kMostSegmentExports));
  unmap_freed();
}

void Buffers::unmap_freed() {
  bool any = false;
  for (int rank = 0; rank < size_; ++rank) {
    const BoardOfRank& theirs = board_->ranks[rank];
    if (rank == rank_ || theirs.left.load(std::memory_order_acquire) != 0) continue;
    for (int number = 0; number < kMostBuffers; ++number) {
      const uint32_t state = theirs.states[number].load(std::memory_order_acquire);
      std::atomic<uint32_t>& seen = board_->ranks[rank_].seen[rank][number];
      if (state % 2 == 1 || state == seen.load(std::memory_order_acquire)) continue;
      unmap(rank, number);
      seen.store(state, std::memory_order_release);
      any = true;
    }
  }
  if (any) wake_all(board_);
}

int Buffers::first_that_left() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && board_->ranks[rank].left.load(std::memory_order_acquire) != 0) return rank;
  }
  return -1;
}

void Buffers::map(int rank, int number) {
  const BoardOfRank& theirs = board_->ranks[rank];
  const Export& place = theirs.exports[number];
  void* memory = nullptr;
  if (place.kind == ExportKind::kSegments && !shares_segments(rank)) {
    collect(rank);
    const uint32_t state = theirs.states[number].load(std::memory_order_acquire);
    const Arrivals::Mapping mapping = arrivals_.map(rank, {static_cast<uint32_t>(number), state});
    memory = reinterpret_cast<void*>(mapping.address);
    mapped_bytes(rank, number) = memory ? mapping.bytes : 0;
  } else if (is_own_process(rank)) {
    memory = reinterpret_cast<void*>(place.base);
  } else if (cudaIpcOpenMemHandle(&memory, place.handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) {
    cudaGetLastError();
    memory = nullptr;
  }
  board_->ranks[rank_].addresses[rank][number] = reinterpret_cast<uint64_t>(memory);
}

void Buffers::unmap(int rank, int number) {
  if (rank == rank_) return;
  uint64_t& address = board_->ranks[rank_].addresses[rank][number];
  size_t& segment_bytes = mapped_bytes(rank, number);
  if (segment_bytes) {
    descriptors_.driver->unmap(address, segment_bytes);
    segment_bytes = 0;
  } else if (address && !is_own_process(rank)) {
    cudaIpcCloseMemHandle(reinterpret_cast<void*>(address));
  }
  address = 0;
}

void Buffers::leave() {
  board_->ranks[rank_].left.store(1, std::memory_order_release);
  wake_all(board_);
  const int64_t begin = now_ns();
  while (now_ns() - begin < kLeaveLimitNs) {
    const uint32_t news = board_->news.load(std::memory_order_acquire);
    bool unmapped = true;
    for (int rank = 0; rank < size_; ++rank) {
      const BoardOfRank& theirs = board_->ranks[rank];
      if (rank == rank_ || theirs.left.load(std::memory_order_acquire) != 0) continue;
      unmapped = unmapped && theirs.unmapped[rank_].load(std::memory_order_acquire) != 0;
    }
    if (unmapped || board_->failed.load(std::memory_order_relaxed) != 0) return;
    wait_for_news(board_, news, kLookNs);
  }
}

}  // namespace ccore_cuda
