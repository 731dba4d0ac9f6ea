#include "transport/rdma/rdma_link.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "transport/progress.h"

namespace ccore {
namespace {

// Messages that may be under way to a peer that does not look, and the credits beside them.
constexpr uint32_t kMessages = 256;
constexpr uint32_t kCreditSlots = 16;
constexpr uint32_t kSendQueue = 192;
constexpr uint32_t kSendsKeptForCredits = 16;
constexpr uint32_t kSignalEvery = 32;
constexpr size_t kPieceBytes = 64 * 1024;
constexpr size_t kCreditPage = 4096;
constexpr uint32_t kCreditBit = 1U << 31;
constexpr int kPollsUntilArmed = 32;
constexpr int kCompletions = 16;
// For the last writes of a link that ends; a peer that is gone does not acknowledge them.
constexpr int64_t kLingerMs = 1000;
constexpr size_t kMostRing = size_t{1} << 30;

struct Credit {
  uint64_t consumed = 0;
  uint64_t messages = 0;
};
// Own credits leave from the second half of the page, those of the peer arrive in the first.
constexpr size_t kOwnCredits = kCreditPage / 2;

}  // namespace

RdmaLink::RdmaLink(std::shared_ptr<RdmaDevice> device, size_t ring_bytes, const Session& session, std::string own,
                   std::string who)
    : device_(std::move(device)),
      own_(std::move(own)),
      who_(std::move(who)),
      header_seals_(make_seals(session, kHeaderPurpose, who_)),
      in_(*device_, ring_bytes, true),
      out_(*device_, ring_bytes, false),
      credits_(*device_, kCreditPage, true),
      queue_(*device_, kSendQueue, kMessages + kCreditSlots) {
  const int error = queue_.receive(kMessages + kCreditSlots);
  if (error != 0) throw Error(CC_ERROR_SYSTEM, "cannot post receives on " + device_->text() + ": " + errno_text(error));
}

RdmaLink::~RdmaLink() {
  // What was written last may not have left yet.
  if (!connected_ || !broken_.empty()) return;
  const Deadline patience = Deadline::in_ms(kLingerMs);
  if (works_signalled_ < works_posted_) {
    // A write of nothing: its completion says that all before it have arrived.
    ibv::SendWr work{};
    work.opcode = ibv::kWrite;
    work.wr.rdma.remote_addr = peer_.credit_address;
    work.wr.rdma.rkey = peer_.credit_rkey;
    post(&work, true);
  }
  while (broken_.empty() && works_ended_ < works_signalled_ && !patience.passed()) {
    poll_once();
    relax();
  }
}

RdmaEndpoint RdmaLink::endpoint() const {
  RdmaEndpoint own;
  queue_.describe(&own);
  own.ring_address = in_.address();
  own.ring_bytes = in_.size();
  own.ring_rkey = in_.rkey();
  own.credit_address = credits_.address();
  own.credit_rkey = credits_.rkey();
  return own;
}

void RdmaLink::connect(const RdmaEndpoint& peer) {
  const bool power =
      peer.ring_bytes >= kCreditPage && peer.ring_bytes <= kMostRing && (peer.ring_bytes & (peer.ring_bytes - 1)) == 0;
  if (!power || peer.mtu < 1 || peer.mtu > 5 || peer.qp_num > 0xffffff || peer.psn > 0xffffff || peer.lid > 0xffff) {
    throw Error(CC_ERROR_REMOTE, who_ + " announced an RDMA endpoint that cannot be");
  }
  if (peer.link_layer != device_->attributes().link_layer) {
    throw Error(CC_ERROR_SYSTEM, device_->text() + " and the port of " + who_ +
                                     " are not of one kind (one is InfiniBand, the other one RoCE)");
  }
  queue_.connect(peer);
  peer_ = peer;
  connected_ = true;
}

size_t RdmaLink::try_send(const std::byte* data, size_t size) {
  if (!broken_.empty()) lost();
  size_t done = 0;
  for (int attempt = 0; attempt < 2 && done < size; ++attempt) {
    while (done < size) {
      const size_t room = static_cast<size_t>(peer_.ring_bytes - (sent_ - sent_until_));
      const size_t wrap = static_cast<size_t>(peer_.ring_bytes - sent_ % peer_.ring_bytes);
      const size_t own_room = out_.size() - static_cast<size_t>(sent_ - freed_);
      const size_t piece = std::min({size - done, room, wrap, own_room, out_.until_wrap(sent_), kPieceBytes});
      if (piece == 0 || !write(data + done, piece)) break;
      done += piece;
    }
    if (done < size) poll();
    if (!broken_.empty()) break;
  }
  if (done == 0) nothing_moved();
  if (done == 0 && !broken_.empty()) lost();
  return done;
}

bool RdmaLink::write(const std::byte* data, size_t size) {
  if (messages_sent_ - messages_until_ >= kMessages) return false;
  if (works_posted_ - works_ended_ >= kSendQueue - kSendsKeptForCredits) return false;
  ibv::Sge piece{};
  ibv::SendWr work{};
  const bool inlined = size <= queue_.inline_bytes();
  if (inlined) {
    piece.addr = reinterpret_cast<uint64_t>(data);
    work.send_flags = ibv::kSendInline;
  } else {
    std::memcpy(out_.at(sent_), data, size);
    piece.addr = reinterpret_cast<uint64_t>(out_.at(sent_));
    piece.lkey = out_.lkey();
  }
  piece.length = static_cast<uint32_t>(size);
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = ibv::kWriteWithImmediate;
  work.imm_data = htonl(static_cast<uint32_t>(messages_sent_) & ~kCreditBit);
  work.wr.rdma.remote_addr = peer_.ring_address + sent_ % peer_.ring_bytes;
  work.wr.rdma.rkey = peer_.ring_rkey;
  sent_ += size;
  ++messages_sent_;
  post(&work, sent_ - sent_signalled_ >= out_.size() / 4);
  return true;
}

void RdmaLink::post(ibv::SendWr* work, bool more_memory) {
  ++works_posted_;
  if (more_memory || works_posted_ - works_signalled_ >= kSignalEvery) {
    work->send_flags |= ibv::kSendSignaled;
    signals_.push_back(Signal{works_posted_, sent_});
    works_signalled_ = works_posted_;
    sent_signalled_ = sent_;
  }
  const int error = queue_.send(work);
  if (error != 0) break_with("a write could not be posted: " + errno_text(error));
}

void RdmaLink::poll() {
  poll_once();
  if (receives_due_ >= kCompletions) {
    const int error = queue_.receive(receives_due_);
    if (error != 0) return break_with("a receive could not be posted: " + errno_text(error));
    receives_due_ = 0;
  }
  // Only receives that are posted again are promised.
  const uint64_t posted_again = messages_arrived_ - std::min<uint64_t>(messages_arrived_, receives_due_);
  if (posted_again >= messages_told_ + kMessages / 4 || consumed_ - consumed_told_ >= in_.size() / 4) give_credit();
  if (broken_.empty() && device_->dead()) break_with("the device failed");
}

void RdmaLink::poll_once() {
  ibv::Wc completions[kCompletions];
  while (broken_.empty()) {
    const int count = queue_.poll(completions, kCompletions);
    if (count < 0) return break_with("its completion queue failed");
    for (int i = 0; i < count; ++i) take(completions[i]);
    if (count > 0) polls_ = 0;
    if (count < kCompletions) return;
  }
}

void RdmaLink::take(const ibv::Wc& completion) {
  if (completion.status != ibv::kWcSuccess) {
    std::string hint;
    if (completion.status == ibv::kWcRetriesExceeded) {
      hint = " (the peer is gone, or packets do not pass between these two ports: another rail, a wrong GID, PFC)";
    } else if (completion.status == ibv::kWcReceiverNotReady) {
      hint = " (a defect of collective_core: it wrote without a credit)";
    }
    return break_with(std::string(device_->verbs().wc_status_str(completion.status)) + hint);
  }
  if ((completion.opcode & ibv::kWcReceive) == 0) {
    if (signals_.empty()) return break_with("a write completed that was not posted");
    works_ended_ = signals_.front().works;
    freed_ = signals_.front().sent;
    signals_.pop_front();
    return;
  }
  ++receives_due_;
  const uint32_t immediate = ntohl(completion.imm_data);
  if ((immediate & kCreditBit) != 0) {
    take_credit(immediate & ~kCreditBit);
  } else {
    take_data(completion.byte_len, immediate);
  }
}

void RdmaLink::take_data(uint32_t size, uint32_t immediate) {
  if (immediate != (static_cast<uint32_t>(messages_arrived_) & ~kCreditBit)) {
    return break_with(format("its message %u arrived instead of message %llu", immediate,
                             static_cast<unsigned long long>(messages_arrived_)));
  }
  if (size == 0 || size > in_.size() - static_cast<size_t>(arrived_ - consumed_)) {
    return break_with(format("it wrote %u bytes, more than it had credit for", size));
  }
  ++messages_arrived_;
  arrived_ += size;
}

void RdmaLink::take_credit(uint32_t immediate) {
  if (immediate != (static_cast<uint32_t>(credits_arrived_) & ~kCreditBit)) {
    return break_with("a credit is missing");
  }
  Credit credit;
  std::memcpy(&credit, credits_.at((credits_arrived_ % kCreditSlots) * sizeof credit), sizeof credit);
  ++credits_arrived_;
  const bool believable = credit.consumed >= sent_until_ && credit.consumed <= sent_ &&
                          credit.messages >= messages_until_ && credit.messages <= messages_sent_;
  if (!believable) return break_with("it gave a credit for what was not sent");
  sent_until_ = credit.consumed;
  messages_until_ = credit.messages;
}

void RdmaLink::give_credit() {
  Credit credit;
  credit.consumed = consumed_;
  credit.messages = messages_arrived_ - std::min<uint64_t>(messages_arrived_, receives_due_);
  credit.messages = std::max(credit.messages, messages_told_);
  const size_t slot = (credits_sent_ % kCreditSlots) * sizeof credit;
  std::byte* place = credits_.at(kOwnCredits + slot);
  std::memcpy(place, &credit, sizeof credit);
  ibv::Sge piece{reinterpret_cast<uint64_t>(place), sizeof credit, credits_.lkey()};
  ibv::SendWr work{};
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = ibv::kWriteWithImmediate;
  if (queue_.inline_bytes() >= sizeof credit) work.send_flags = ibv::kSendInline;
  work.imm_data = htonl((static_cast<uint32_t>(credits_sent_) & ~kCreditBit) | kCreditBit);
  work.wr.rdma.remote_addr = peer_.credit_address + slot;
  work.wr.rdma.rkey = peer_.credit_rkey;
  ++credits_sent_;
  consumed_told_ = credit.consumed;
  messages_told_ = credit.messages;
  post(&work, false);
}

Bytes RdmaLink::peek(size_t at_least) {
  if (arrived_ - consumed_ < at_least) poll();
  const auto ready = static_cast<size_t>(arrived_ - consumed_);
  if (ready < at_least) {
    // What arrived before the connection broke still counts.
    if (!broken_.empty()) lost();
    nothing_moved();
  }
  return Bytes{in_.at(consumed_), static_cast<size_t>(arrived_ - consumed_)};
}

void RdmaLink::consume(size_t size) {
  consumed_ += size;
  if (broken_.empty() && consumed_ - consumed_told_ >= in_.size() / 4) give_credit();
}

size_t RdmaLink::try_recv(std::byte* data, size_t size) {
  const Bytes ready = peek(1);
  const size_t count = std::min(ready.size, size);
  if (count == 0) return 0;
  std::memcpy(data, ready.data, count);
  consume(count);
  return count;
}

void RdmaLink::nothing_moved() {
  if (++polls_ < kPollsUntilArmed) return;
  polls_ = 0;
  queue_.arm();
  poll();  // what came before the queue was armed wakes no thread
}

void RdmaLink::break_with(const std::string& why) {
  if (broken_.empty()) broken_ = why;
}

void RdmaLink::lost() const {
  throw Error(CC_ERROR_REMOTE, own_ + " lost the RDMA connection to " + who_ + ", from " + device_->text() +
                                   " to GID " + text_of_gid(peer_.gid) + ": " + broken_ + device_->news());
}

}  // namespace ccore
