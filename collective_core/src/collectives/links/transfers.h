// Point-to-point transfers of one rank: any number at once. Those to one peer, and those from one peer, move in
// the order in which they were added; otherwise none waits for another. A receive from any rank takes the next
// message of whichever rank has one with its tag; ranks take turns.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/context.h"
#include "collectives/links/framing.h"
#include "common/clock.h"
#include "common/error.h"

namespace ccore {

constexpr int kAnyPeer = -1;

struct Transfer {
  bool sends;  // to peer; else receives from it
  int peer;    // of a receive also kAnyPeer, until a message has been chosen
  std::byte* data;  // only read if it sends
  size_t bytes;
  Operation header;  // count, dtype and tag; the rest is filled in
  int64_t limit_ms;
  uint64_t ticket = 0;    // the recorder's
  int* source = nullptr;  // of a receive: where its sender's rank goes when it has ended
};

class Transfers {
 public:
  // on_end: told of every one that has ended.
  Transfers(int rank, int nranks, std::function<void(const Transfer&)> on_end);

  void add(const Transfer& transfer);
  // The header that it gets when it is added now.
  Operation next_header(const Transfer& transfer) const;
  // Moves what can move: until all have ended, or, if there is a patience, until one more has or it is over.
  void run(const Context& context, const Deadline* patience);
  // Of all since clear(), in the order of add().
  size_t count() const { return items_.size(); }
  bool finished(size_t index) const { return items_[index].finished; }
  // Grows whenever one of them has moved.
  uint64_t moves() const { return moves_; }
  bool all_finished() const { return finished_ == items_.size(); }
  // Calls f for all that have not ended.
  void for_each_unfinished(const std::function<void(const Transfer&)>& f) const;
  // Forgets them; the numbering of the transfers between ranks goes on.
  void clear();
  // Throws CC_ERROR_TIMEOUT for one that is late. name: a rank in words.
  void check_deadlines(const std::function<std::string(int)>& name) const;

 private:
  struct Item {
    Transfer transfer;
    Deadline deadline;
    HeaderProgress header = {};
    size_t bytes_done = 0;
    bool finished = false;
    std::optional<Deadline> departed = std::nullopt;  // the peer has left; until then its last bytes may still come
    int candidates = 0;  // of a receive from any rank: other ranks whose message it may still become
  };
  // The unfinished ones with one peer in one direction. A receive from any rank stands in the lanes of all.
  using Lane = std::deque<size_t>;

  bool advance_sends(const Context& context, int peer);
  bool advance_recvs(const Context& context, int peer);
  bool advance_own();
  // Puts the receive that the next message of peer is for at the front of its lane. False: none so far.
  bool choose(const Context& context, int peer);
  bool arrange(int peer, const Operation& header);
  void await_goodbye(const Context& context, int peer, const Error* broken);
  bool advance_send(Link* link, Item* item);
  bool advance_recv(Link* link, Item* item);
  void check_departure(const Context& context, Item* item) const;
  bool all_moved(const Item& item) const;
  void finish(Lane* lane);

  int rank_;
  std::function<void(const Transfer&)> on_end_;
  std::vector<Item> items_;
  size_t finished_ = 0;
  uint64_t moves_ = 0;
  std::vector<Lane> sends_;  // by peer
  std::vector<Lane> recvs_;
  std::vector<bool> stalled_;              // by peer: what it sent next is for none of the receives
  std::vector<std::optional<Deadline>> gone_;  // by peer: as Item::departed, for receives from any rank
  int last_chosen_ = 0;                    // the peer that a receive from any rank took its message from
  std::vector<uint64_t> sent_;             // by peer: how many were ever added
  std::vector<uint64_t> received_;         // by peer: how many messages were ever begun
};

}  // namespace ccore
