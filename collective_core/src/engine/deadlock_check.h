// Finds out that this rank transfers with a rank of its node that is in an operation which waits for this one.
//
// Two ranks that meet over a link find the header of the other's call on it. An operation in the memory of the node
// leaves none there, hence a look at what the other rank announces. Nor does one on another node that waits for data
// itself; that is only looked at when the transfer is late, since what was sent before may still be on its way.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "collectives/links/transfers.h"
#include "common/clock.h"
#include "transport/shm/arena.h"

namespace ccore {

// What a rank called as the operation of that number; false if that is not known.
using CallOfRank = std::function<bool(int rank, uint64_t operation, Operation* called)>;

class DeadlockCheck {
 public:
  DeadlockCheck(int rank, int nranks) : rank_(rank), nranks_(nranks) {}

  // To be called while transfers do not move. sequence: of this rank's last operation. Throws CC_ERROR_DESYNC, naming
  // both calls, when one of them could not move for a while because its peer waits for this rank elsewhere.
  void check(const Transfers& transfers, const Arena& arena, uint64_t sequence);
  // The same at once, with all that is known. For transfers that are late.
  void explain(const Transfers& transfers, const CallOfRank& call_of, uint64_t sequence) const;

 private:
  bool waits_elsewhere(const CallOfRank& call_of, int peer, uint64_t sequence, Operation* found) const;
  // Of a transfer with peer, or any rank: the rank that will not answer, or -1.
  int deaf_peer(const CallOfRank& call_of, int peer, uint64_t sequence, Operation* found) const;
  // Of the first unfinished transfer that has one; own: its header.
  int deaf_peer(const Transfers& transfers, const CallOfRank& call_of, uint64_t sequence, Operation* own,
                Operation* found) const;

  int rank_;
  int nranks_;
  uint64_t moves_ = 0;
  std::optional<Deadline> patience_;
};

}  // namespace ccore
