#include "transport/shm/arena.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ccore {
namespace {

// Operations of a rank that can still be looked up: it may be ahead of the one that looks.
constexpr uint64_t kNotices = 4;
constexpr size_t kPage = 4096;

size_t mail_bytes(size_t n) { return 2 * n * n * sizeof(Mail); }
size_t receipt_bytes(size_t n) { return n * n * sizeof(Receipt); }
size_t notice_bytes(size_t n) { return n * kNotices * sizeof(Notice); }
size_t accesses_at(size_t n) { return mail_bytes(n) + receipt_bytes(n) + notice_bytes(n); }
size_t slots_at(size_t n) { return (accesses_at(n) + n * sizeof(Access) + kPage - 1) / kPage * kPage; }

}  // namespace

static_assert(sizeof(Mail) == 256 && sizeof(Receipt) == 64 && sizeof(Notice) == 64 && sizeof(Access) == 64,
              "layout shared by processes");

size_t Arena::bytes_for(int nlocal, size_t slot_bytes) {
  const auto n = static_cast<size_t>(nlocal);
  return slots_at(n) + 2 * n * slot_bytes;
}

// The memory is zeros, which is what every part of it begins with.
Arena::Arena(const Segment& segment, int local_rank, std::vector<int> local_of, bool may_spin)
    : nlocal_(segment.name().nlocal),
      own_(local_rank),
      slot_bytes_(segment.name().slot_bytes),
      may_spin_(may_spin),
      local_of_(std::move(local_of)),
      has_all_(std::find(local_of_.begin(), local_of_.end(), -1) == local_of_.end()),
      pairs_(static_cast<size_t>(nlocal_)) {
  const auto n = static_cast<size_t>(nlocal_);
  std::byte* base = segment.arena();
  mails_ = reinterpret_cast<Mail*>(base);
  receipts_ = reinterpret_cast<Receipt*>(base + mail_bytes(n));
  notices_ = reinterpret_cast<Notice*>(base + mail_bytes(n) + receipt_bytes(n));
  accesses_ = reinterpret_cast<Access*>(base + accesses_at(n));
  slots_ = base + slots_at(n);
  for (int local = 0; local < nlocal_; ++local) doorbells_.push_back(segment.doorbell(local));
}

std::byte* Arena::slot(int local, unsigned half) const {
  return slots_ + (2 * static_cast<size_t>(local) + half) * slot_bytes_;
}

// A release for each word, so that whoever reads a new word also sees that the state is odd.
void Arena::announce(uint64_t operation, const std::byte* header) {
  Notice& notice = notices_[static_cast<uint64_t>(own_) * kNotices + operation % kNotices];
  notice.state.store(2 * operation + 1, std::memory_order_relaxed);
  for (size_t i = 0; i < notice.words.size(); ++i) {
    uint64_t word;
    std::memcpy(&word, header + 8 * i, sizeof word);
    notice.words[i].store(word, std::memory_order_release);
  }
  notice.state.store(2 * operation, std::memory_order_release);
}

bool Arena::announced(int local, uint64_t operation, std::byte* header) const {
  const Notice& notice = notices_[static_cast<uint64_t>(local) * kNotices + operation % kNotices];
  if (notice.state.load(std::memory_order_acquire) != 2 * operation) return false;
  for (size_t i = 0; i < notice.words.size(); ++i) {
    const uint64_t word = notice.words[i].load(std::memory_order_acquire);
    std::memcpy(header + 8 * i, &word, sizeof word);
  }
  return notice.state.load(std::memory_order_relaxed) == 2 * operation;
}

}  // namespace ccore
