#include "transport/rdma/rdma_link.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "transport/progress.h"

namespace ccore {
namespace {

constexpr uint32_t kCreditSlots = 16;
constexpr uint32_t kSendQueue = 256;
constexpr uint32_t kSendsKept = 64;  // for credits, and to flush
constexpr uint32_t kSignalEvery = 32;
constexpr size_t kPieceBytes = 64 * 1024;
// A copy of fewer bytes takes no longer than the acknowledgement that a sender of its own memory waits for.
constexpr size_t kLeastLent = 32 * 1024;
constexpr size_t kCreditPage = 4096;
// In the immediate: of credits; of the first message in a new ring. The rest is a number.
constexpr uint32_t kCreditBit = 1U << 31;
constexpr uint32_t kSwitchBit = 1U << 30;
constexpr uint32_t kNumber = kSwitchBit - 1;
constexpr int kPollsUntilArmed = 32;
constexpr int kCompletions = 16;
// Of a link on which nothing completes, until it asks the device whether the peer still answers.
constexpr int64_t kProbeMs = 1000;
// For the last writes of a link that ends; a peer that is gone does not acknowledge them.
constexpr int64_t kLingerMs = 1000;
// A peer that sends little needs no more than the first.
constexpr size_t kFirstRing = 16 * 1024;
constexpr size_t kMostRing = 512 * 1024;
constexpr uint32_t kMostAnnounced = 1U << 30;

struct Credit {
  uint64_t consumed = 0;
  uint64_t messages = 0;
  RemoteRing ring;
};
// Own credits leave from the second half of the page, those of the peer arrive in the first.
constexpr size_t kOwnCredits = kCreditPage / 2;

bool believable(const RemoteRing& ring) {
  return ring.bytes >= kCreditPage && ring.bytes <= kMostAnnounced && (ring.bytes & (ring.bytes - 1)) == 0;
}

RemoteRing announced(const RingMemory& ring, size_t rails) {
  RemoteRing announcement{ring.address(), static_cast<uint32_t>(ring.size()), 0, {}};
  for (size_t rail = 0; rail < rails; ++rail) announcement.rkeys[rail] = ring.rkey(rail);
  return announcement;
}

}  // namespace

RdmaLink::RdmaLink(RdmaRails rails, const Session& session, std::string own, std::string who)
    : rails_(std::move(rails)),
      own_(std::move(own)),
      who_(std::move(who)),
      header_seals_(make_seals(session, kHeaderPurpose, who_)),
      in_(std::make_unique<RingMemory>(rails_, kFirstRing, true)),
      credits_(rails_, kCreditPage, true) {
  constexpr uint32_t kReceives = kMessages + kCreditSlots;
  const uint32_t pairs = rails_.front()->queue_pairs();
  for (const auto& rail : rails_) completions_.emplace_back(*rail, pairs * (kSendQueue + kReceives));
  for (uint32_t i = 0; i < pairs * rails_.size(); ++i) {
    Queue& queue = queues_.emplace_back();
    queue.rail = i % rails_.size();
    const RdmaDevice& device = *rails_[queue.rail];
    queue.pair = std::make_unique<QueuePair>(device, completions_[queue.rail], kSendQueue, kReceives);
    const int error = queue.pair->receive(kReceives);
    if (error == 0) continue;
    throw Error(CC_ERROR_SYSTEM, "cannot post receives on " + device.text() + ": " + errno_text(error));
  }
}

RdmaLink::~RdmaLink() {
  // What was written last may not have left yet.
  if (!connected_ || !broken_.empty()) return;
  const Deadline patience = Deadline::in_ms(kLingerMs);
  flush();
  const auto waits = [](const Queue& queue) { return queue.ended < queue.signalled; };
  while (broken_.empty() && std::any_of(queues_.begin(), queues_.end(), waits) && !patience.passed()) {
    poll_once();
    relax();
  }
}

RdmaEndpoint RdmaLink::endpoint() const {
  RdmaEndpoint own;
  own.rails = static_cast<uint32_t>(rails_.size());
  own.queue_pairs = rails_.front()->queue_pairs();
  for (size_t rail = 0; rail < rails_.size(); ++rail) {
    const ibv::PortAttr& port = rails_[rail]->attributes();
    own.ports[rail] = RemotePort{rails_[rail]->gid(), static_cast<uint32_t>(port.active_mtu), port.link_layer, port.lid,
                                 credits_.rkey(rail)};
  }
  for (size_t i = 0; i < queues_.size(); ++i) {
    own.pairs[i] = RemoteQueuePair{queues_[i].pair->number(), queues_[i].pair->first_packet()};
  }
  own.ring = announced(*in_, rails_.size());
  own.credit_address = credits_.address();
  return own;
}

void RdmaLink::connect(const RdmaEndpoint& peer) {
  bool possible = believable(peer.ring) && peer.rails >= 1 && peer.rails <= kMostRdmaRails && peer.queue_pairs >= 1 &&
                  peer.queue_pairs <= kMostQueuePairs / peer.rails;
  for (size_t rail = 0; rail < std::min<size_t>(peer.rails, kMostRdmaRails); ++rail) {
    const RemotePort& port = peer.ports[rail];
    possible = possible && port.mtu >= 1 && port.mtu <= 5 && port.lid <= 0xffff;
  }
  for (const RemoteQueuePair& pair : peer.pairs) {
    possible = possible && pair.number <= 0xffffff && pair.first_packet <= 0xffffff;
  }
  if (!possible) throw Error(CC_ERROR_REMOTE, who_ + " announced an RDMA endpoint that cannot be");
  // The smaller number of rails, and of queue pairs on each, counts.
  const size_t own_rails = rails_.size();
  for (size_t i = queues_.size(); i-- > 0;) {
    if (queues_[i].rail < peer.rails && i / own_rails < peer.queue_pairs) continue;
    queues_.erase(queues_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  const size_t rails = std::min<size_t>(own_rails, peer.rails);
  for (size_t i = 0; i < queues_.size(); ++i) {
    const size_t rail = queues_[i].rail;
    const RemotePort& port = peer.ports[rail];
    if (port.link_layer != rails_[rail]->attributes().link_layer) {
      throw Error(CC_ERROR_SYSTEM, rails_[rail]->text() + " and the port of " + who_ +
                                       " are not of one kind (one is InfiniBand, the other one RoCE)");
    }
    queues_[i].pair->connect(port, peer.pairs[i / rails * peer.rails + rail]);
  }
  peer_ = peer;
  connected_ = true;
}

const ibv::Mr* RdmaLink::source_of(const std::byte* data, size_t size, size_t rail) const {
  return size >= kLeastLent || (lending() && size > 0) ? rails_[rail]->source_of(data, size) : nullptr;
}

size_t RdmaLink::try_send(const std::byte* data, size_t size) {
  if (!broken_.empty()) lost();
  const bool without_copy = source_of(data, size) != nullptr;
  for (int attempt = 0; attempt < 2 && takeable() - taken_ < size && broken_.empty(); ++attempt) {
    if (attempt > 0) poll();
    // What is lent was offered before, and is still offered.
    while (sent_ - taken_ < size && broken_.empty()) {
      const size_t offered = static_cast<size_t>(sent_ - taken_);
      if (!write(data + offered, size - offered, without_copy)) break;
    }
  }
  const size_t done = std::min(size, static_cast<size_t>(takeable() - taken_));
  taken_ += done;
  if (done == 0 && size > 0) {
    nothing_moved();
    if (!broken_.empty()) lost();
  }
  return done;
}

bool RdmaLink::write(const std::byte* data, size_t size, bool without_copy) {
  const size_t number = messages_sent_ % queues_.size();
  Queue& queue = queues_[number];
  if (messages_sent_ - messages_until_ >= kMessages) return false;
  if (queue.posted - queue.ended >= kSendQueue - kSendsKept) return false;
  const RemoteRing& ring = peer_.ring;
  const auto room = static_cast<size_t>(ring.bytes - (sent_ - sent_until_));
  size = std::min({size, room, static_cast<size_t>(ring.bytes - sent_ % ring.bytes), kPieceBytes});
  if (size == 0) return false;
  ibv::Sge piece{};
  ibv::SendWr work{};
  piece.addr = reinterpret_cast<uint64_t>(data);
  bool signalled = false;
  if (size <= queue.pair->inline_bytes()) {
    work.send_flags = ibv::kSendInline;
  } else if (without_copy) {
    piece.lkey = rails_[queue.rail]->source_of(data, size)->lkey;
    signalled = true;
    if (!lending()) {
      // The copies before it on other queue pairs would keep it lent until a completion of theirs.
      if (queues_.size() > 1 && !flights_.empty()) flush();
      lent_from_ = sent_;
    }
    lent_until_ = sent_ + size;
  } else {
    if (!make_room_to_copy()) return false;
    const size_t own_room = out_->size() - static_cast<size_t>(copied_ - std::max(copied_freed_, out_from_));
    size = std::min({size, own_room, out_->until_wrap(copied_)});
    std::memcpy(out_->at(copied_), data, size);
    piece.addr = reinterpret_cast<uint64_t>(out_->at(copied_));
    piece.lkey = out_->lkey(queue.rail);
    // One completion frees a quarter of the ring.
    const size_t quarter = out_->size() / 4;
    signalled = copied_ / quarter != (copied_ + size) / quarter;
    copied_ += size;
  }
  piece.length = static_cast<uint32_t>(size);
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = ibv::kWriteWithImmediate;
  work.imm_data = htonl((static_cast<uint32_t>(messages_sent_) & kNumber) | (ring_changed_ ? kSwitchBit : 0));
  work.wr.rdma.remote_addr = ring.address + sent_ % ring.bytes;
  work.wr.rdma.rkey = ring.rkeys[queue.rail];
  ring_changed_ = false;
  sent_ += size;
  ++messages_sent_;
  post(number, &work, signalled);
  if ((work.send_flags & ibv::kSendInline) == 0) flights_.push_back(Flight{number, queue.posted, sent_, copied_});
  return true;
}

bool RdmaLink::make_room_to_copy() {
  if (!out_) {
    out_ = std::make_unique<RingMemory>(rails_, kFirstRing, false);
    return true;
  }
  if (copied_ - std::max(copied_freed_, out_from_) < out_->size()) return true;
  std::unique_ptr<RingMemory> larger = old_out_ ? nullptr : larger_ring(out_->size(), false);
  if (!larger) {
    flush();
    return false;
  }
  old_out_ = std::move(out_);
  out_ = std::move(larger);
  out_from_ = copied_;
  return true;
}

void RdmaLink::post(size_t number, ibv::SendWr* work, bool signalled) {
  Queue& queue = queues_[number];
  work->wr_id = ++queue.posted;
  if (signalled || queue.posted - queue.signalled >= kSignalEvery) {
    work->send_flags |= ibv::kSendSignaled;
    queue.signalled = queue.posted;
  }
  const int error = queue.pair->send(work);
  if (error != 0) break_with("a write could not be posted: " + errno_text(error), queue.rail);
}

void RdmaLink::flush() {
  for (size_t number = 0; number < queues_.size(); ++number) {
    if (queues_[number].signalled < queues_[number].posted) post_nothing(number);
  }
}

void RdmaLink::post_nothing(size_t number) {
  ibv::SendWr work{};
  work.opcode = ibv::kWrite;
  work.wr.rdma.remote_addr = peer_.credit_address;
  work.wr.rdma.rkey = peer_.ports[queues_[number].rail].credit_rkey;
  post(number, &work, true);
}

void RdmaLink::poll() {
  poll_once();
  uint32_t due = 0;
  for (const Queue& queue : queues_) due += queue.receives_due;
  if (due >= kCompletions) {
    for (Queue& queue : queues_) {
      const int error = queue.pair->receive(std::exchange(queue.receives_due, 0));
      if (error != 0) return break_with("a receive could not be posted: " + errno_text(error), queue.rail);
    }
    due = 0;
  }
  // Only receives that are posted again are promised.
  const uint64_t posted_again = messages_arrived_ - std::min<uint64_t>(messages_arrived_, due);
  if (posted_again >= messages_told_ + kMessages / 4 || consumed_ - consumed_told_ >= in_->size() / 4) give_credit();
  grow_in();
  for (const Queue& queue : queues_) {
    const std::string obstacle = broken_.empty() ? rails_[queue.rail]->obstacle() : "";
    if (!obstacle.empty()) break_with(obstacle, queue.rail);
  }
}

void RdmaLink::poll_once() {
  ibv::Wc completions[kCompletions];
  for (size_t rail = 0; rail < completions_.size(); ++rail) {
    int count = kCompletions;
    while (broken_.empty() && count == kCompletions) {
      count = completions_[rail].poll(completions, kCompletions);
      if (count < 0) return break_with("its completion queue failed", rail);
      for (int i = 0; i < count; ++i) take(completions[i], rail);
      if (count > 0) {
        polls_ = 0;
        still_since_ns_ = 0;
      }
    }
  }
}

void RdmaLink::take(const ibv::Wc& completion, size_t rail) {
  if (completion.status != ibv::kWcSuccess) {
    std::string hint;
    if (completion.status == ibv::kWcRetriesExceeded) {
      hint = " (the peer is gone, or packets do not pass between these two ports: another rail, a wrong GID, PFC)";
    } else if (completion.status == ibv::kWcReceiverNotReady) {
      hint = " (a defect of collective_core: it wrote without a credit)";
    }
    return break_with(std::string(rails_[rail]->verbs().wc_status_str(completion.status)) + hint, rail);
  }
  // Two devices number their queue pairs alike.
  const auto of_it = [&](const Queue& queue) {
    return queue.rail == rail && queue.pair->number() == completion.qp_num;
  };
  const auto queue = std::find_if(queues_.begin(), queues_.end(), of_it);
  if (queue == queues_.end()) return break_with("a work completed on another queue pair", rail);
  if ((completion.opcode & ibv::kWcReceive) == 0) {
    if (completion.wr_id <= queue->ended || completion.wr_id > queue->signalled) {
      return break_with("a write completed that was not posted", rail);
    }
    queue->ended = completion.wr_id;
    while (!flights_.empty() && flights_.front().index <= queues_[flights_.front().queue].ended) {
      freed_ = flights_.front().sent;
      copied_freed_ = flights_.front().copied;
      flights_.pop_front();
    }
    if (old_out_ && copied_freed_ >= out_from_) old_out_.reset();
    return;
  }
  ++queue->receives_due;
  const uint32_t immediate = ntohl(completion.imm_data);
  if ((immediate & kCreditBit) != 0) {
    take_credit(immediate);
  } else {
    take_data(completion.byte_len, immediate);
  }
}

// Messages of one queue pair come in order; those of another may pass them.
void RdmaLink::take_data(uint32_t size, uint32_t immediate) {
  const uint32_t ahead = ((immediate & kNumber) - static_cast<uint32_t>(messages_arrived_)) & kNumber;
  if (size == 0 || ahead >= kMessages || (ahead > 0 && queues_.size() == 1)) {
    return break_with(format("its message %u of %u bytes arrived instead of message %llu", immediate & kNumber, size,
                             static_cast<unsigned long long>(messages_arrived_)));
  }
  Early& place = early_[(messages_arrived_ + ahead) % kMessages];
  if (place.size != 0) return break_with(format("its message %u arrived twice", immediate & kNumber));
  place = Early{size, (immediate & kSwitchBit) != 0};
  while (broken_.empty() && early_[messages_arrived_ % kMessages].size != 0) {
    deliver(std::exchange(early_[messages_arrived_ % kMessages], Early()));
  }
}

void RdmaLink::deliver(const Early& message) {
  if (message.switches) {
    if (!next_in_ || switched_at_) return break_with("it wrote to a ring that was not announced");
    switched_at_ = arrived_;
  }
  const RingMemory& ring = switched_at_ ? *next_in_ : *in_;
  if (message.size > ring.size() - static_cast<size_t>(arrived_ - consumed_)) {
    return break_with(format("it wrote %u bytes, more than it had credit for", message.size));
  }
  ++messages_arrived_;
  arrived_ += message.size;
}

void RdmaLink::take_credit(uint32_t immediate) {
  if ((immediate & ~kCreditBit) != (static_cast<uint32_t>(credits_arrived_) & kNumber)) {
    return break_with("a credit is missing");
  }
  Credit credit;
  std::memcpy(&credit, credits_.at((credits_arrived_ % kCreditSlots) * sizeof credit), sizeof credit);
  ++credits_arrived_;
  const bool plausible = credit.consumed >= sent_until_ && credit.consumed <= sent_ &&
                         credit.messages >= messages_until_ && credit.messages <= messages_sent_ &&
                         believable(credit.ring) && credit.ring.bytes >= peer_.ring.bytes;
  if (!plausible) return break_with("it gave a credit for what was not sent");
  sent_until_ = credit.consumed;
  messages_until_ = credit.messages;
  if (credit.ring.bytes > peer_.ring.bytes) ring_changed_ = true;
  peer_.ring = credit.ring;
}

void RdmaLink::give_credit() {
  uint32_t due = 0;
  for (const Queue& queue : queues_) due += queue.receives_due;
  Credit credit;
  credit.consumed = consumed_;
  credit.messages = std::max(messages_arrived_ - std::min<uint64_t>(messages_arrived_, due), messages_told_);
  credit.ring = announced(next_in_ ? *next_in_ : *in_, rails_.size());
  const size_t slot = (credits_sent_ % kCreditSlots) * sizeof credit;
  std::byte* place = credits_.at(kOwnCredits + slot);
  std::memcpy(place, &credit, sizeof credit);
  ibv::Sge piece{reinterpret_cast<uint64_t>(place), sizeof credit, credits_.lkey(0)};
  ibv::SendWr work{};
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = ibv::kWriteWithImmediate;
  if (queues_.front().pair->inline_bytes() >= sizeof credit) work.send_flags = ibv::kSendInline;
  work.imm_data = htonl((static_cast<uint32_t>(credits_sent_) & kNumber) | kCreditBit);
  work.wr.rdma.remote_addr = peer_.credit_address + slot;
  work.wr.rdma.rkey = peer_.ports[0].credit_rkey;
  ++credits_sent_;
  consumed_told_ = credit.consumed;
  messages_told_ = credit.messages;
  post(0, &work, false);
}

// As large as the limit of the communicator allows; null if a larger one is not allowed or not possible.
std::unique_ptr<RingMemory> RdmaLink::larger_ring(size_t than, bool remote) {
  size_t size = kMostRing;
  while (size > than && size > rails_.front()->ring_bytes_left()) size /= 2;
  if (size <= than || !may_grow_) return nullptr;
  try {
    return std::make_unique<RingMemory>(rails_, size, remote);
  } catch (const Error& error) {
    may_grow_ = false;
    log(LogLevel::info, "RDMA goes on with rings of %zu KiB: %s", than / 1024, error.what());
    return nullptr;
  }
}

// A peer that writes faster than this rank reads gets more room.
void RdmaLink::grow_in() {
  if (!broken_.empty() || next_in_ || arrived_ - consumed_ <= in_->size() / 4 * 3) return;
  next_in_ = larger_ring(in_->size(), true);
  if (next_in_) give_credit();
}

// The peer has begun to write to the new ring. Nothing of it lies where the rest of the old one belongs: that is not
// consumed, so no credit was given for it.
void RdmaLink::switch_in() {
  std::memcpy(next_in_->at(consumed_), in_->at(consumed_), static_cast<size_t>(*switched_at_ - consumed_));
  in_ = std::move(next_in_);
  switched_at_.reset();
}

Bytes RdmaLink::peek(size_t at_least) {
  if (arrived_ - consumed_ < at_least) poll();
  const auto ready = static_cast<size_t>(arrived_ - consumed_);
  if (ready < at_least) {
    // What arrived before the connection broke still counts.
    if (!broken_.empty()) lost();
    nothing_moved();
  }
  if (switched_at_) switch_in();
  return Bytes{in_->at(consumed_), static_cast<size_t>(arrived_ - consumed_)};
}

void RdmaLink::consume(size_t size) {
  consumed_ += size;
  if (broken_.empty() && consumed_ - consumed_told_ >= in_->size() / 4) give_credit();
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
  if (lending()) flush();
  probe();
  for (CompletionQueue& one : completions_) one.arm();
  poll();  // what came before the queue was armed wakes no thread
}

// A rank that only waits for data has no write whose failure would report that the way to the peer is dead.
void RdmaLink::probe() {
  const int64_t now = now_ns();
  if (still_since_ns_ == 0) still_since_ns_ = now;
  if (now - still_since_ns_ < kProbeMs * 1000000) return;
  still_since_ns_ = now;
  for (size_t number = 0; number < queues_.size(); ++number) {
    if (queues_[number].ended == queues_[number].posted) post_nothing(number);
  }
  flush();
}

void RdmaLink::break_with(const std::string& why, size_t rail) {
  if (!broken_.empty()) return;
  broken_ = why;
  broken_rail_ = rail;
}

void RdmaLink::lost() const {
  const RdmaDevice& device = *rails_[broken_rail_];
  throw Error(CC_ERROR_REMOTE, own_ + " lost the RDMA connection to " + who_ + ", from " + device.text() + " to GID " +
                                   text_of_gid(peer_.ports[broken_rail_].gid) + ": " + broken_ + device.news());
}

}  // namespace ccore
