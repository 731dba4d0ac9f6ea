#include "collectives/links/transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/links/framing.h"
#include "common/error.h"
#include "common/index.h"
#include "transport/seal.h"

namespace ccore {
namespace {

// How long what a departed peer left on the link may take to come out of it. Shared memory may give nothing at times.
constexpr int64_t kDepartedMs = 200;
// Of a connection, what was lost on its way and is sent again; its end tells when nothing more will come.
constexpr int64_t kConnectedMs = 5000;

Deadline patience_with(const Link& link) { return Deadline::in_ms(link.fd() < 0 ? kDepartedMs : kConnectedMs); }

}  // namespace

Transfers::Transfers(int rank, int nranks, std::function<void(const Transfer&)> on_end)
    : rank_(rank),
      on_end_(std::move(on_end)),
      sends_(at(nranks)),
      recvs_(at(nranks)),
      stalled_(at(nranks)),
      gone_(at(nranks)),
      sent_(at(nranks)),
      received_(at(nranks)) {}

Operation Transfers::next_header(const Transfer& transfer) const {
  Operation header = transfer.header;
  const int peer = transfer.peer;
  header.kind = Kind::transfer;
  header.root = transfer.sends ? rank_ : peer;
  header.target = transfer.sends ? peer : rank_;
  // Of a receive only for texts: it is counted when it begins.
  if (transfer.sends) header.sequence = sent_[at(peer)] + 1;
  if (!transfer.sends && peer != kAnyPeer) header.sequence = received_[at(peer)] + recvs_[at(peer)].size() + 1;
  return header;
}

void Transfers::add(const Transfer& transfer) {
  Item item{transfer, Deadline::in_ms(transfer.limit_ms)};
  item.transfer.header = next_header(transfer);
  const int peer = transfer.peer;
  if (transfer.sends) {
    ++sent_[at(peer)];
    sends_[at(peer)].push_back(items_.size());
  } else if (peer != kAnyPeer) {
    recvs_[at(peer)].push_back(items_.size());
  } else {
    item.candidates = static_cast<int>(recvs_.size()) - 1;
    for (Lane& lane : recvs_) lane.push_back(items_.size());
  }
  items_.push_back(item);
}

void Transfers::for_each_unfinished(const std::function<void(const Transfer&)>& f) const {
  for (const Item& item : items_) {
    if (!item.finished) f(item.transfer);
  }
}

void Transfers::clear() {
  items_.clear();
  finished_ = 0;
  for (Lane& lane : sends_) lane.clear();
  for (Lane& lane : recvs_) lane.clear();
  for (auto& patience : gone_) patience.reset();
}

void Transfers::run(const Context& context, const Deadline* patience) {
  const size_t before = finished_;
  while (!all_finished()) {
    bool moved = advance_own();
    for (int i = 1; i <= context.nranks; ++i) {
      const int peer = (last_chosen_ + i) % context.nranks;  // whose turn it is comes first
      if (peer == rank_) continue;
      moved = advance_sends(context, peer) || moved;
      moved = advance_recvs(context, peer) || moved;
    }
    if (moved) ++moves_;
    if (patience && (finished_ > before || patience->passed())) return;
    if (moved) {
      context.wait->moved();
      continue;
    }
    std::vector<const Link*> want_send;
    std::vector<const Link*> want_recv;
    for (int peer = 0; peer < context.nranks; ++peer) {
      if (peer == rank_) continue;
      if (!sends_[at(peer)].empty()) want_send.push_back(&context.link(peer));
      if (!recvs_[at(peer)].empty() && !stalled_[at(peer)]) want_recv.push_back(&context.link(peer));
    }
    context.wait->idle(want_send, want_recv);
  }
}

void Transfers::check_deadlines(const std::function<std::string(int)>& name) const {
  for (const Item& item : items_) {
    if (item.finished || !item.deadline.passed()) continue;
    const Transfer& transfer = item.transfer;
    const std::string peer = transfer.peer == kAnyPeer ? "any rank" : name(transfer.peer);
    throw Error(CC_ERROR_TIMEOUT,
                format("%s on rank %d did not end within its timeout of %.3f s; it waits for %s",
                       describe(transfer.header).c_str(), rank_, static_cast<double>(transfer.limit_ms) / 1000,
                       (transfer.sends ? peer + " to take data" : "data from " + peer).c_str()));
  }
}

bool Transfers::all_moved(const Item& item) const {
  return item.header.whole && item.bytes_done == item.transfer.bytes;
}

bool Transfers::advance_sends(const Context& context, int peer) {
  Lane& lane = sends_[at(peer)];
  bool moved = false;
  while (!lane.empty()) {
    Item& item = items_[lane.front()];
    const bool some = advance_send(&context.link(peer), &item);
    moved = moved || some;
    if (some) item.departed.reset();
    if (!all_moved(item)) {
      if (!some) check_departure(context, &item);
      return moved;
    }
    finish(&lane);
    moved = true;
  }
  return moved;
}

bool Transfers::advance_recvs(const Context& context, int peer) {
  Lane& lane = recvs_[at(peer)];
  bool moved = false;
  stalled_[at(peer)] = false;
  while (!lane.empty()) {
    if (items_[lane.front()].transfer.peer == kAnyPeer && !choose(context, peer)) return moved;
    Item& item = items_[lane.front()];
    const bool some = advance_recv(&context.link(peer), &item);
    moved = moved || some;
    if (some) item.departed.reset();
    if (!all_moved(item)) {
      if (!some) check_departure(context, &item);
      return moved;
    }
    finish(&lane);
    moved = true;
  }
  return moved;
}

void Transfers::check_departure(const Context& context, Item* item) const {
  const int peer = item->transfer.peer;
  if (!context.has_left(peer)) return;
  if (!item->departed) item->departed = patience_with(context.link(peer));
  if (!item->departed->passed()) return;
  throw Error(CC_ERROR_REMOTE,
              format("rank %d destroyed its communicator before %s", peer, describe(item->transfer.header).c_str()));
}

bool Transfers::choose(const Context& context, int peer) {
  std::optional<Operation> header;
  try {
    header = peek_header(&context.link(peer));
  } catch (const NotAuthentic&) {
    throw;  // no sign of a rank that has left
  } catch (const Error& error) {
    await_goodbye(context, peer, &error);
    return false;
  }
  if (!header) {
    if (context.has_left(peer)) await_goodbye(context, peer, nullptr);
    return false;
  }
  gone_[at(peer)].reset();
  // A rank that is ahead of us, in a collective, has nothing for us yet.
  if (header->kind == Kind::transfer && arrange(peer, *header)) return true;
  stalled_[at(peer)] = true;
  return false;
}

bool Transfers::arrange(int peer, const Operation& header) {
  Lane& lane = recvs_[at(peer)];
  const auto chosen = std::find_if(lane.begin(), lane.end(), [&](size_t index) {
    const Transfer& transfer = items_[index].transfer;
    return transfer.peer != kAnyPeer || transfer.header.tag == header.tag;
  });
  if (chosen == lane.end()) return false;
  const size_t index = *chosen;
  lane.erase(chosen);
  lane.push_front(index);
  Transfer& transfer = items_[index].transfer;
  if (transfer.peer != kAnyPeer) return true;
  transfer.peer = peer;
  transfer.header.root = peer;
  last_chosen_ = peer;
  for (size_t other = 0; other < recvs_.size(); ++other) {
    Lane& rest = recvs_[other];
    if (other != at(peer)) rest.erase(std::remove(rest.begin(), rest.end(), index), rest.end());
  }
  return true;
}

// A rank that has left, or whose link broke (broken): of no use to a receive from any rank, and no harm if it said
// goodbye. Its last bytes, and its goodbye on another connection, may still be on their way.
void Transfers::await_goodbye(const Context& context, int peer, const Error* broken) {
  stalled_[at(peer)] = true;
  if (!gone_[at(peer)]) gone_[at(peer)] = patience_with(context.link(peer));
  const bool left = context.has_left(peer);
  if (!gone_[at(peer)]->passed() && !(left && broken)) return;
  if (!left) throw *broken;
  Lane& lane = recvs_[at(peer)];
  while (!lane.empty() && items_[lane.front()].transfer.peer == kAnyPeer) {
    Item& item = items_[lane.front()];
    lane.pop_front();
    if (--item.candidates > 0) continue;
    throw Error(CC_ERROR_REMOTE,
                "all other ranks destroyed their communicators before " + describe(item.transfer.header));
  }
}

bool Transfers::advance_send(Link* link, Item* item) {
  const Transfer& transfer = item->transfer;
  bool moved = false;
  if (!item->header.whole) {
    const Piece sent = send_with_header(link, transfer.header, &item->header, transfer.data, transfer.bytes);
    item->bytes_done += sent.payload;
    moved = sent.header > 0;
    if (!item->header.whole) return moved;
  }
  const size_t some = std::min(link->turn_bytes(), transfer.bytes - item->bytes_done);
  const size_t n = some == 0 ? 0 : link->try_send(transfer.data + item->bytes_done, some);
  item->bytes_done += n;
  link->payload_bytes_sent += n;
  return moved || n > 0;
}

bool Transfers::advance_recv(Link* link, Item* item) {
  Transfer& transfer = item->transfer;
  bool moved = false;
  if (!item->header.whole) {
    transfer.header.sequence = received_[at(transfer.peer)] + 1;
    if (!receive_header(link, transfer.header, rank_, transfer.peer)) return false;
    ++received_[at(transfer.peer)];
    item->header.whole = true;
    moved = true;
  }
  const size_t some = std::min(link->turn_bytes(), transfer.bytes - item->bytes_done);
  const size_t n = some == 0 ? 0 : link->try_recv(transfer.data + item->bytes_done, some);
  item->bytes_done += n;
  link->payload_bytes_received += n;
  return moved || n > 0;
}

// From this rank to itself: the oldest of each side belong together.
bool Transfers::advance_own() {
  Lane& sends = sends_[at(rank_)];
  Lane& recvs = recvs_[at(rank_)];
  bool moved = false;
  while (!sends.empty() && !recvs.empty()) {
    const Transfer& from = items_[sends.front()].transfer;
    if (!arrange(rank_, from.header)) return moved;
    Transfer& to = items_[recvs.front()].transfer;
    to.header.sequence = ++received_[at(rank_)];
    if (!same(from.header, to.header)) {
      throw Error(CC_ERROR_DESYNC, format("rank %d sends itself %s and expects %s", rank_,
                                          describe(from.header).c_str(), describe(to.header).c_str()));
    }
    if (from.bytes > 0) std::memmove(to.data, from.data, from.bytes);
    finish(&sends);
    finish(&recvs);
    moved = true;
  }
  return moved;
}

void Transfers::finish(Lane* lane) {
  Item& item = items_[lane->front()];
  item.finished = true;
  if (item.transfer.source) *item.transfer.source = item.transfer.peer;
  on_end_(item.transfer);
  lane->pop_front();
  ++finished_;
}

}  // namespace ccore
