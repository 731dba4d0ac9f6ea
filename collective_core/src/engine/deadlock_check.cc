#include "engine/deadlock_check.h"

namespace ccore {
namespace {

// What the peer sent before it began its operation is on the link already, but a link may give nothing at times.
constexpr int64_t kPatienceMs = 200;

}  // namespace

void DeadlockCheck::check(const Transfers& transfers, const Arena& arena, uint64_t sequence) {
  if (transfers.moves() != moves_) patience_.reset();
  moves_ = transfers.moves();
  Operation own;
  Operation found;
  const auto call_of = [&](int rank, uint64_t operation, Operation* called) {
    const int local = arena.local_of(rank);
    return local >= 0 && arena.announced(local, operation, reinterpret_cast<std::byte*>(called));
  };
  const int deaf = deaf_peer(transfers, call_of, sequence, &own, &found);
  if (deaf < 0) {
    patience_.reset();
  } else if (!patience_) {
    patience_ = Deadline::in_ms(kPatienceMs);
  } else if (patience_->passed()) {
    require_same(own, rank_, found, deaf);
  }
}

void DeadlockCheck::explain(const Transfers& transfers, const CallOfRank& call_of, uint64_t sequence) const {
  Operation own;
  Operation found;
  const int deaf = deaf_peer(transfers, call_of, sequence, &own, &found);
  if (deaf >= 0) require_same(own, rank_, found, deaf);
}

int DeadlockCheck::deaf_peer(const Transfers& transfers, const CallOfRank& call_of, uint64_t sequence, Operation* own,
                             Operation* found) const {
  int deaf = -1;
  transfers.for_each_unfinished([&](const Transfer& transfer) {
    if (deaf >= 0) return;
    deaf = deaf_peer(call_of, transfer.peer, sequence, found);
    *own = transfer.header;
  });
  return deaf;
}

int DeadlockCheck::deaf_peer(const CallOfRank& call_of, int peer, uint64_t sequence, Operation* found) const {
  if (peer != kAnyPeer) return waits_elsewhere(call_of, peer, sequence, found) ? peer : -1;
  int deaf = -1;
  for (int rank = 0; rank < nranks_; ++rank) {
    if (rank == rank_) continue;
    if (!waits_elsewhere(call_of, rank, sequence, found)) return -1;
    deaf = rank;
  }
  return deaf;
}

// The peer may have been through operations that do not need this rank, to one that does.
bool DeadlockCheck::waits_elsewhere(const CallOfRank& call_of, int peer, uint64_t sequence, Operation* found) const {
  if (peer == rank_) return false;
  while (call_of(peer, ++sequence, found)) {
    if (cannot_end_without(*found, peer, rank_)) return true;
  }
  return false;
}

}  // namespace ccore
