#include "net/send_comm.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/clock.h"
#include "transport/tcp/host_silence.h"

namespace ccore::nccl {
namespace {

constexpr size_t kPieceStep = 4096;
// Smaller pieces cost more in system calls than further sockets gain.
constexpr size_t kLeastPiece = 16 * 1024;
// Of a larger message the lead socket takes pieces even if every thread polls.
constexpr size_t kLeadFrom = 128 * 1024;

constexpr int64_t kLookNs = 500'000'000;

size_t piece_for(size_t size, size_t sockets, const Settings& settings) {
  if (size <= settings.inline_bytes) return std::max<size_t>(size, 1);
  const size_t even = (size + sockets - 1) / sockets;
  const size_t piece = std::clamp(even, std::min(kLeastPiece, settings.chunk_bytes), settings.chunk_bytes);
  return (piece + kPieceStep - 1) / kPieceStep * kPieceStep;
}

}  // namespace

class SendPort : public Port {
 public:
  SendPort(UniqueFd fd, SendComm* comm, bool lead)
      : fd_(std::move(fd)), silence_(fd_.get()), comm_(comm), lead_(lead) {}

  int fd() const { return fd_.get(); }
  // A worker may hold the port a little longer than the connection does.
  void close() { fd_.reset(); }
  bool busy() const { return chunk_.slot != nullptr; }

  Step step() override {
    if (comm_->failure() != kSuccess) return Step::idle;
    if (!chunk_.slot && !comm_->cut(&chunk_, lead_)) return Step::idle;
    auto* header = reinterpret_cast<std::byte*>(&chunk_.header) + chunk_.header_done;
    const size_t header_rest = sizeof(ChunkHeader) - chunk_.header_done;
    const size_t data_rest = chunk_.header.length - chunk_.data_done;
    // sendmsg() only reads from it.
    auto* data = const_cast<std::byte*>(chunk_.slot->data) + chunk_.header.offset + chunk_.data_done;
    iovec parts[2] = {{header, header_rest}, {data, data_rest}};
    msghdr message{};
    message.msg_iov = header_rest > 0 ? parts : parts + 1;
    message.msg_iovlen = (header_rest > 0 ? 1u : 0u) + (data_rest > 0 ? 1u : 0u);
    const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) return Step::moved;
      if (errno == EAGAIN && !silence_.is_too_long()) return Step::blocked;
      comm_->fail(kRemoteError, errno == EAGAIN ? "send: " + silence_.text() : loss_text("send", errno));
      return Step::idle;
    }
    silence_.moved();
    const size_t of_header = std::min(static_cast<size_t>(sent), header_rest);
    chunk_.header_done += of_header;
    chunk_.data_done += static_cast<size_t>(sent) - of_header;
    if (chunk_.header_done == sizeof(ChunkHeader) && chunk_.data_done == chunk_.header.length) {
      const size_t count = std::max<size_t>(chunk_.header.length, 1);
      std::exchange(chunk_.slot, nullptr)->left.fetch_sub(count, std::memory_order_release);
    }
    return Step::moved;
  }

 private:
  UniqueFd fd_;
  HostSilence silence_;
  SendComm* const comm_;
  const bool lead_;
  SendComm::Chunk chunk_;
};

SendComm::SendComm(std::vector<UniqueFd> sockets, const Settings& settings, std::string peer)
    : Comm(std::move(peer), sockets), settings_(settings) {
  for (Slot& slot : slots_) slot.comm = this;
  lead_ = std::make_unique<SendPort>(std::move(sockets.front()), this, true);
  if (sockets.size() > 1) workers_ = Workers::of_process(settings.workers, settings.spin_ns);
  for (size_t i = 1; i < sockets.size(); ++i) {
    ports_.push_back(std::make_shared<SendPort>(std::move(sockets[i]), this, false));
    workers_->add(ports_.back(), ports_.back()->fd(), EPOLLOUT);
  }
}

SendComm::~SendComm() {
  before_close();
  for (const auto& port : ports_) {
    workers_->remove(port, port->fd());
    port->close();
  }
}

bool SendComm::cut(Chunk* chunk, bool lead) {
  if (uncut_.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard<std::mutex> lock(cutting_);
  if (cut_sequence_ == cut_end_) return false;
  Slot& slot = slots_[cut_sequence_ % kRequests];
  if (lead && !slot.lead_too) return false;
  const size_t length = std::min(slot.piece, slot.size - cut_offset_);
  chunk->header = ChunkHeader{cut_sequence_, static_cast<uint32_t>(length), cut_offset_, slot.size};
  chunk->header_done = 0;
  chunk->data_done = 0;
  chunk->slot = &slot;
  cut_offset_ += length;
  if (cut_offset_ == slot.size) {
    ++cut_sequence_;
    cut_offset_ = 0;
    uncut_.fetch_sub(1, std::memory_order_release);
  }
  return true;
}

void SendComm::progress() {
  if (!lead_->busy() && uncut_.load(std::memory_order_acquire) == 0) return;
  if (lead_->step() != Step::blocked || uncut_.load(std::memory_order_acquire) == 0) return;
  // The lead socket is full. What waits behind it can take another one.
  for (const auto& port : ports_) workers_->signal(port);
}

Result SendComm::send(const void* data, size_t size, Request** request) {
  *request = nullptr;
  if (failure() != kSuccess) return failure();
  Slot& slot = slots_[posted_ % kRequests];
  if (slot.used) {
    progress();
    return failure();
  }
  slot.used = true;
  slot.data = static_cast<const std::byte*>(data);
  slot.size = size;
  // Threads that poll take a message of medium size at once, while the caller goes on to the next connection.
  const bool threads_take_it =
      size > settings_.inline_bytes && size <= kLeadFrom && !ports_.empty() && workers_->all_awake();
  slot.lead_too = !threads_take_it;
  slot.piece = piece_for(size, ports_.size() + (slot.lead_too ? 1 : 0), settings_);
  slot.left.store(std::max<size_t>(size, 1), std::memory_order_relaxed);
  ++posted_;
  {
    const std::lock_guard<std::mutex> lock(cutting_);
    cut_end_ = posted_;
    uncut_.fetch_add(1, std::memory_order_release);
  }
  if (size > slot.piece || !slot.lead_too) {
    const size_t pieces = (size + slot.piece - 1) / slot.piece;
    const size_t helpers = std::min(ports_.size(), pieces - (slot.lead_too ? 1 : 0));
    for (size_t i = 0; i < helpers; ++i) workers_->signal(ports_[(next_port_ + i) % ports_.size()]);
    if (!ports_.empty()) next_port_ = (next_port_ + helpers) % ports_.size();
  }
  progress();
  *request = &slot;
  return failure();
}

Result SendComm::test(Request* request, int* done, int* size) {
  auto* slot = static_cast<Slot*>(request);
  *done = 0;
  progress();
  if (slot->left.load(std::memory_order_acquire) != 0) {
    // The kernel reports nothing of a host that vanished: the sockets have a look themselves.
    const int64_t now = now_ns();
    if (now - looked_ns_ > kLookNs) {
      looked_ns_ = now;
      for (const auto& port : ports_) workers_->signal(port);
    }
    return failure();
  }
  *done = 1;
  if (size) *size = static_cast<int>(slot->size);
  slot->used = false;
  return kSuccess;
}

}  // namespace ccore::nccl
