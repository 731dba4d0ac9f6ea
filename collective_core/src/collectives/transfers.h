// Point-to-point transfers of one rank: any number at once. Those to one peer, and those from one peer, move in
// the order in which they were added; otherwise none waits for another.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/context.h"
#include "common/clock.h"

namespace ccore {

struct Transfer {
  bool sends;  // to peer; else receives from it
  int peer;
  std::byte* data;  // only read if it sends
  size_t bytes;
  Operation header;  // count, dtype and tag; the rest is filled in
  int64_t limit_ms;
};

class Transfers {
 public:
  Transfers(int rank, int nranks);

  void add(const Transfer& transfer);
  // Moves what can move: until all have ended, or, if there is a patience, until one more has or it is over.
  void run(const Context& context, const Deadline* patience);
  // Of all since clear(), in the order of add().
  size_t count() const { return items_.size(); }
  bool finished(size_t index) const { return items_[index].finished; }
  bool all_finished() const { return finished_ == items_.size(); }
  // Forgets them; the numbering of the transfers between ranks goes on.
  void clear();
  // Throws CC_ERROR_TIMEOUT for one that is late. name: a rank in words.
  void check_deadlines(const std::function<std::string(int)>& name) const;

 private:
  struct Item {
    Transfer transfer;
    Deadline deadline;
    size_t header_done = 0;
    size_t bytes_done = 0;
    bool finished = false;
    std::optional<Deadline> departed = std::nullopt;  // the peer has left; until then its last bytes may still come
  };
  // The unfinished ones with one peer in one direction.
  using Lane = std::deque<size_t>;

  bool advance(const Context& context, Lane* lane);
  bool advance_send(Link* link, Item* item);
  bool advance_recv(Link* link, Item* item);
  bool advance_own();
  void finish(Lane* lane);

  int rank_;
  std::vector<Item> items_;
  size_t finished_ = 0;
  std::vector<Lane> sends_;  // by peer
  std::vector<Lane> recvs_;
  std::vector<uint64_t> sent_;  // how many were ever added
  std::vector<uint64_t> received_;
};

}  // namespace ccore
