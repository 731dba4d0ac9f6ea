#include "net/receive_comm.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/clock.h"
#include "common/error.h"

namespace ccore::nccl {
namespace {

constexpr uint64_t kPosted = uint64_t{1} << 32;
// What a socket receives behind the chunk at hand: the next headers, and small messages as a whole, in one call.
constexpr size_t kAheadBytes = 16 * 1024;
// How long the bytes of a message may stay out after one of the sockets was closed between two chunks: the peer closes
// all of them when it is done, and the last bytes may still be on their way on another one.
constexpr int64_t kCloseGraceNs = 2'000'000'000;

}  // namespace

class ReceivePort : public Port {
 public:
  ReceivePort(UniqueFd fd, ReceiveComm* comm) : fd_(std::move(fd)), comm_(comm), ahead_(new std::byte[kAheadBytes]) {}

  int fd() const { return fd_.get(); }
  // A worker may hold the port a little longer than the connection does.
  void close() { fd_.reset(); }

  Step step() override {
    if (comm_->failure() != kSuccess) return Step::idle;
    if (!settle()) return Step::idle;
    if (ended_) return Step::idle;
    // At most the beginning of a header is left.
    const size_t kept = end_ - begin_;
    if (kept > 0) std::memmove(ahead_.get(), ahead_.get() + begin_, kept);
    begin_ = 0;
    end_ = kept;
    const ssize_t got = take(kept);
    if (got < 0) {
      if (errno == EAGAIN) return Step::blocked;
      if (errno == EINTR) return Step::moved;
      ended_ = true;
      comm_->fail(kRemoteError, loss_text("receive", errno));
      return Step::idle;
    }
    if (got == 0) {
      ended_ = true;
      comm_->ended(rest_ > 0 || kept > 0);
      return Step::idle;
    }
    const size_t placed = std::min(static_cast<size_t>(got), rest_);
    end_ += static_cast<size_t>(got) - placed;
    if (placed > 0) arrived(placed);
    return settle() ? Step::moved : Step::idle;
  }

 private:
  friend class ReceiveComm;

  ssize_t take(size_t kept) {
    if (rest_ == 0) return recv(fd_.get(), ahead_.get() + kept, kAheadBytes - kept, MSG_DONTWAIT);
    iovec parts[2] = {{slot_->data + offset_, rest_}, {ahead_.get() + kept, kAheadBytes - kept}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    return recvmsg(fd_.get(), &message, MSG_DONTWAIT);
  }

  void arrived(size_t count) {
    offset_ += count;
    rest_ -= count;
    ReceiveComm::Slot* slot = slot_;
    if (rest_ == 0) slot_ = nullptr;
    // After this the slot may be free.
    slot->got.fetch_add(count, std::memory_order_release);
  }

  // Uses up what was received ahead. False while NCCL has not asked for the message that comes next, or on a failure.
  bool settle() {
    while (true) {
      const size_t there = end_ - begin_;
      if (rest_ > 0) {
        const size_t count = std::min(there, rest_);
        if (count == 0) return true;
        std::memcpy(slot_->data + offset_, ahead_.get() + begin_, count);
        begin_ += count;
        arrived(count);
        continue;
      }
      if (there < sizeof(ChunkHeader)) return true;
      ChunkHeader header;
      std::memcpy(&header, ahead_.get() + begin_, sizeof header);
      ReceiveComm::Slot* slot = comm_->slot_for(header, this);
      if (!slot) return false;
      if (!comm_->is_sane(*slot, header)) return false;
      begin_ += sizeof header;
      offset_ = header.offset;
      rest_ = header.length;
      slot_ = rest_ > 0 ? slot : nullptr;
      slot->total.store(header.total, std::memory_order_release);
    }
  }

  UniqueFd fd_;
  ReceiveComm* const comm_;
  ReceiveComm::Slot* slot_ = nullptr;  // of the chunk that arrives
  uint64_t offset_ = 0;                // of its next byte
  size_t rest_ = 0;
  bool held_ = false;  // its next chunk waits for NCCL; guarded by holding_
  bool ended_ = false;
  const std::unique_ptr<std::byte[]> ahead_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

ReceiveComm::ReceiveComm(std::vector<UniqueFd> sockets, const Settings& settings, std::string peer)
    : Comm(std::move(peer), sockets) {
  for (Slot& slot : slots_) slot.comm = this;
  lead_ = std::make_unique<ReceivePort>(std::move(sockets.front()), this);
  if (sockets.size() > 1) workers_ = Workers::of_process(settings.workers, settings.spin_ns);
  for (size_t i = 1; i < sockets.size(); ++i) {
    ports_.push_back(std::make_shared<ReceivePort>(std::move(sockets[i]), this));
  }
  for (const auto& port : ports_) workers_->add(port, port->fd(), EPOLLIN);
}

ReceiveComm::~ReceiveComm() {
  before_close();
  for (const auto& port : ports_) {
    workers_->remove(port, port->fd());
    port->close();
  }
}

bool ReceiveComm::Slot::complete() const {
  const uint64_t all = total.load(std::memory_order_acquire);
  return all != kUnknown && got.load(std::memory_order_acquire) == all;
}

ReceiveComm::Slot* ReceiveComm::posted(uint32_t sequence) {
  Slot& slot = slots_[sequence % kRequests];
  return slot.posted.load(std::memory_order_acquire) == (kPosted | sequence) ? &slot : nullptr;
}

ReceiveComm::Slot* ReceiveComm::slot_for(const ChunkHeader& header, ReceivePort* port) {
  if (Slot* slot = posted(header.sequence)) return slot;
  const std::lock_guard<std::mutex> lock(holding_);
  if (Slot* slot = posted(header.sequence)) return slot;
  if (!port->held_ && port != lead_.get()) {
    port->held_ = true;
    ++held_;
  }
  return nullptr;
}

bool ReceiveComm::is_sane(const Slot& slot, const ChunkHeader& header) {
  const uint64_t total = slot.total.load(std::memory_order_acquire);
  if (header.total > slot.capacity) {
    fail(
        kInvalidUsage,
        format("the peer sent %llu bytes where NCCL expected at most %zu; the ranks disagree about a collective or its "
               "size: compare their calls and variables such as NCCL_PROTO and NCCL_ALGO",
               static_cast<unsigned long long>(header.total), slot.capacity));
    return false;
  }
  if (header.offset > header.total || header.length > header.total - header.offset ||
      (total != kUnknown && total != header.total)) {
    fail(kRemoteError, "the peer sent a malformed chunk; use the same version of the plugin on every node");
    return false;
  }
  return true;
}

void ReceiveComm::ended(bool in_the_middle) {
  int64_t unset = 0;
  ended_at_ns_.compare_exchange_strong(unset, now_ns());
  ended_.fetch_add(1);
  if (in_the_middle) fail(kRemoteError, loss_text("receive", 0));
}

Result ReceiveComm::check_ended() {
  const size_t count = ended_.load();
  if (count == 0) return failure();
  if (count > ports_.size() || now_ns() - ended_at_ns_.load() > kCloseGraceNs) {
    return fail(kRemoteError, loss_text("receive", 0));
  }
  return failure();
}

Result ReceiveComm::receive(void* data, size_t capacity, Request** request) {
  *request = nullptr;
  if (failure() != kSuccess) return failure();
  Slot& slot = slots_[posted_ % kRequests];
  if (slot.used) {
    lead_->step();
    return failure();
  }
  slot.used = true;
  slot.data = static_cast<std::byte*>(data);
  slot.capacity = capacity;
  slot.total.store(kUnknown, std::memory_order_relaxed);
  slot.got.store(0, std::memory_order_relaxed);
  std::vector<std::shared_ptr<ReceivePort>> awaited;
  {
    const std::lock_guard<std::mutex> lock(holding_);
    slot.posted.store(kPosted | posted_, std::memory_order_release);
    if (held_ > 0) {
      for (const auto& port : ports_) {
        if (std::exchange(port->held_, false)) awaited.push_back(port);
      }
      held_ = 0;
    }
  }
  ++posted_;
  for (const auto& port : awaited) workers_->signal(port);
  *request = &slot;
  return failure();
}

Result ReceiveComm::test(Request* request, int* done, int* size) {
  auto* slot = static_cast<Slot*>(request);
  *done = 0;
  if (!slot->complete()) lead_->step();
  if (!slot->complete()) return check_ended();
  *done = 1;
  if (size) *size = static_cast<int>(slot->total.load(std::memory_order_relaxed));
  slot->posted.store(0, std::memory_order_relaxed);
  slot->used = false;
  return kSuccess;
}

}  // namespace ccore::nccl
