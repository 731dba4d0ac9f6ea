#include "transport/shm/arena.h"

#include <algorithm>
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

void Arena::announce(uint64_t operation, const std::byte* header) {
  notices_[static_cast<uint64_t>(own_) * kNotices + operation % kNotices].write(operation, header);
}

bool Arena::announced(int local, uint64_t operation, std::byte* header) const {
  return notices_[static_cast<uint64_t>(local) * kNotices + operation % kNotices].read(operation, header);
}

}  // namespace ccore
