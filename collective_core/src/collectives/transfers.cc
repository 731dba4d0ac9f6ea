#include "collectives/transfers.h"

#include <algorithm>
#include <cstring>

#include "collectives/framing.h"
#include "common/error.h"

namespace ccore {
namespace {

// Bytes moved on one link before the next one gets its turn.
constexpr size_t kTurnBytes = 64 * 1024;
// How long what a departed peer left on the link may take to come out of it: a link may give nothing at times.
constexpr int64_t kDepartedMs = 200;

size_t at(int rank) { return static_cast<size_t>(rank); }

}  // namespace

Transfers::Transfers(int rank, int nranks)
    : rank_(rank), sends_(at(nranks)), recvs_(at(nranks)), sent_(at(nranks)), received_(at(nranks)) {}

void Transfers::add(const Transfer& transfer) {
  Item item{transfer, Deadline::in_ms(transfer.limit_ms)};
  Operation& header = item.transfer.header;
  header.kind = Kind::transfer;
  header.sequence = ++(transfer.sends ? sent_ : received_)[at(transfer.peer)];
  header.root = transfer.sends ? rank_ : transfer.peer;
  header.target = transfer.sends ? transfer.peer : rank_;
  (transfer.sends ? sends_ : recvs_)[at(transfer.peer)].push_back(items_.size());
  items_.push_back(item);
}

void Transfers::clear() {
  items_.clear();
  finished_ = 0;
  for (Lane& lane : sends_) lane.clear();
  for (Lane& lane : recvs_) lane.clear();
}

void Transfers::run(const Context& context, const Deadline* patience) {
  const size_t before = finished_;
  while (!all_finished()) {
    bool moved = advance_own();
    for (std::vector<Lane>* lanes : {&sends_, &recvs_}) {
      for (Lane& lane : *lanes) moved = advance(context, &lane) || moved;
    }
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
      if (!recvs_[at(peer)].empty()) want_recv.push_back(&context.link(peer));
    }
    context.wait->idle(want_send, want_recv);
  }
}

void Transfers::check_deadlines(const std::function<std::string(int)>& name) const {
  for (const Item& item : items_) {
    if (item.finished || !item.deadline.passed()) continue;
    const Transfer& transfer = item.transfer;
    const std::string peer = name(transfer.peer);
    throw Error(CC_ERROR_TIMEOUT,
                format("%s on rank %d did not end in %.3f s; it waits for %s",
                       describe(transfer.header).c_str(), rank_, static_cast<double>(transfer.limit_ms) / 1000,
                       (transfer.sends ? peer + " to take data" : "data from " + peer).c_str()));
  }
}

bool Transfers::advance(const Context& context, Lane* lane) {
  bool moved = false;
  while (!lane->empty()) {
    Item& item = items_[lane->front()];
    const int peer = item.transfer.peer;
    if (peer == rank_) return false;  // these need no link: advance_own
    Link& link = context.link(peer);
    const bool some = item.transfer.sends ? advance_send(&link, &item) : advance_recv(&link, &item);
    moved = moved || some;
    if (some) item.departed.reset();
    if (item.header_done == sizeof(Operation) && item.bytes_done == item.transfer.bytes) {
      finish(lane);
      moved = true;
      continue;
    }
    if (!some && context.has_left(peer)) {
      if (!item.departed) item.departed = Deadline::in_ms(kDepartedMs);
      if (!item.departed->passed()) return moved;
      throw Error(CC_ERROR_REMOTE,
                  format("rank %d destroyed its communicator before %s", peer,
                         describe(item.transfer.header).c_str()));
    }
    return moved;
  }
  return moved;
}

bool Transfers::advance_send(Link* link, Item* item) {
  const Transfer& transfer = item->transfer;
  bool moved = false;
  if (item->header_done < sizeof(Operation)) {
    const Piece sent =
        send_with_header(link, transfer.header, item->header_done, transfer.data, transfer.bytes);
    item->header_done += sent.header;
    item->bytes_done += sent.payload;
    moved = sent.header > 0;
    if (item->header_done < sizeof(Operation)) return moved;
  }
  const size_t some = std::min(kTurnBytes, transfer.bytes - item->bytes_done);
  const size_t n = some == 0 ? 0 : link->try_send(transfer.data + item->bytes_done, some);
  item->bytes_done += n;
  link->payload_bytes_sent += n;
  return moved || n > 0;
}

bool Transfers::advance_recv(Link* link, Item* item) {
  const Transfer& transfer = item->transfer;
  bool moved = false;
  if (item->header_done == 0) {
    if (!receive_header(link, transfer.header, rank_, transfer.peer)) return false;
    item->header_done = sizeof(Operation);
    moved = true;
  }
  const size_t some = std::min(kTurnBytes, transfer.bytes - item->bytes_done);
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
    const Transfer& to = items_[recvs.front()].transfer;
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
  items_[lane->front()].finished = true;
  lane->pop_front();
  ++finished_;
}

}  // namespace ccore
