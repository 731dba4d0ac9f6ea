// All that a collective sees of the world: its rank, its links, how to wait, and how to name a failure.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "collectives/choose.h"
#include "collectives/operation.h"
#include "common/caches.h"
#include "schedule/schedule.h"
#include "topology/node.h"
#include "transport/link.h"
#include "transport/progress.h"

namespace ccore {

class Arena;
class CrossMemory;
class Windows;

struct Context {
  int rank;
  int nranks;
  std::function<Link&(int)> link;  // to a rank other than this one
  WaitLadder* wait;
  // What is waited for, kept up to date for the text of a timeout: ranks, or -1.
  int* waiting_to_send_to;
  int* waiting_to_receive_from;
  Operation operation;
  std::function<bool(int)> has_left;  // whether that rank has destroyed its communicator
  std::function<bool(int)> is_gone;   // whether that rank is known to be dead or cut off; may be empty
  // Of all ranks of the communicator; null in a part of them.
  const std::vector<Place>* places = nullptr;
  const Chooser* chooser = nullptr;
  const NodeOrder* order = nullptr;  // null: that of the ranks, as they lie node by node
  int divisor = 0;  // what an average is divided by; 0: nranks
  // Of a part of the ranks (see subgroup.h): each member's rank in the communicator, for texts. Null: all ranks.
  const std::vector<int>* members = nullptr;

  // The memory that the ranks of this node share, and the same if all ranks of this context are among them, for
  // stages of their own (shm/stage.h). Else null.
  Arena* node_arena = nullptr;
  Arena* arena = nullptr;
  // From this size on, what is not in place is written past the caches. A rank's own affair.
  size_t past_caches_bytes = kPastCachesBytes;
  // Whether this rank takes over the lines of slots that it alone has read (common/caches.h). Its own affair too.
  bool takes_over = false;
  const Windows* windows = nullptr;  // what the ranks have registered; null: nothing
  // The memory of the other ranks of the communicator, if all of them may reach each other's; else null.
  CrossMemory* cross_memory = nullptr;

  int rank_of(int member) const { return members && member >= 0 ? (*members)[static_cast<size_t>(member)] : member; }
  // Schedules are made for places in that order: of this rank and of any, and the rank at one.
  int place() const { return place_of(rank); }
  int place_of(int member) const { return order ? order->place_of(member) : member; }
  int rank_at(int place) const { return order && place != kNone ? order->rank_at(place) : place; }
  // A schedule of places with ranks as its peers; its blocks remain those of places.
  Schedule with_ranks(Schedule schedule) const {
    for (Step& step : schedule.steps) {
      step.send_peer = rank_at(step.send_peer);
      step.recv_peer = rank_at(step.recv_peer);
    }
    return schedule;
  }
  unsigned average_over() const { return static_cast<unsigned>(divisor > 0 ? divisor : nranks); }
};

}  // namespace ccore
