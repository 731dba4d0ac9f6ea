#include "engine/standoff.h"

namespace ccore {
namespace {

// What the peer sent before it began its operation is on the link already, but a link may give nothing at times.
constexpr int64_t kPatienceMs = 200;

}  // namespace

void Standoff::check(const Transfers& transfers, const Arena& arena, uint64_t sequence) {
  if (transfers.moves() != moves_) patience_.reset();
  moves_ = transfers.moves();
  Operation own;
  Operation found;
  int deaf = -1;
  transfers.for_each_unfinished([&](const Transfer& transfer) {
    if (deaf >= 0) return;
    deaf = deaf_peer(arena, transfer.peer, sequence, &found);
    own = transfer.header;
  });
  if (deaf < 0) {
    patience_.reset();
  } else if (!patience_) {
    patience_ = Deadline::in_ms(kPatienceMs);
  } else if (patience_->passed()) {
    require_same(own, rank_, found, deaf);
  }
}

int Standoff::deaf_peer(const Arena& arena, int peer, uint64_t sequence, Operation* found) const {
  if (peer != kAnyPeer) return waits_elsewhere(arena, peer, sequence, found) ? peer : -1;
  int deaf = -1;
  for (int rank = 0; rank < nranks_; ++rank) {
    if (rank == rank_) continue;
    if (!waits_elsewhere(arena, rank, sequence, found)) return -1;
    deaf = rank;
  }
  return deaf;
}

// The peer may have been through operations that do not need this rank, to one that does.
bool Standoff::waits_elsewhere(const Arena& arena, int peer, uint64_t sequence, Operation* found) const {
  const int local = arena.local_of(peer);
  if (peer == rank_ || local < 0) return false;
  while (arena.announced(local, ++sequence, reinterpret_cast<std::byte*>(found))) {
    if (cannot_end_without(*found, peer, rank_)) return true;
  }
  return false;
}

}  // namespace ccore
