// Memory of a node that collectives write and read directly: a slot area per rank, and a mailbox per ordered pair of
// ranks by which they tell each other how far they are.
//
// The ranks of a stage (collectives/shm/stage.h) meet pair by pair. Both ranks of a pair take part in the same stages in
// the same order, whatever group each stage is of, so each pair numbers its own stages. Mailboxes and slot areas are
// double: a rank may enter the next stage while others still read what it left in this one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/notice.h"
#include "transport/progress.h"
#include "transport/shm/segment.h"

namespace ccore {

// From one rank to another. Only the sender stores.
struct alignas(64) Mail {
  // Twice the posts of the sender to this receiver since the beginning, plus the half of its slot that is in use.
  std::atomic<uint64_t> posts{0};
  std::array<std::byte, kHeaderBytes> header;
  std::array<std::byte, 192> inlined;  // data of its own, if there is little
};

// That a rank has left the stage of this number of the pair, and reads nothing of it any more.
struct alignas(64) Receipt {
  std::atomic<uint64_t> stage{0};
};

// Of a rank that reaches into the buffers of others (collectives/shm/mutual_access.h). Only it stores.
struct alignas(64) Access {
  std::atomic<uint64_t> sections{0};  // begun and ended: odd while it is in one
  std::atomic<uint32_t> left{0};  // 1: it has left an operation by an error, and no rank may reach into its buffers
};

class Arena {
 public:
  static constexpr size_t kInlineBytes = sizeof(Mail::inlined);

  // What a node with that many ranks needs of its segment. slot_bytes: of one of a rank's two slot areas.
  static size_t bytes_for(int nlocal, size_t slot_bytes);
  // Room for a cache line of each rank in each chunk that is in flight.
  static size_t least_slot_bytes(int nlocal) { return 256 * static_cast<size_t>(nlocal + 1); }

  // local_of: by rank of the communicator, its number on this node, or -1 if it does not share this memory.
  // The segment, which has slots, outlives the arena. may_spin: every rank of the host has a core.
  Arena(const Segment& segment, int local_rank, std::vector<int> local_of, bool may_spin);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int local_of(int rank) const { return local_of_[static_cast<size_t>(rank)]; }
  // Whether all ranks of the communicator share it.
  bool has_all() const { return has_all_; }
  int nlocal() const { return nlocal_; }
  bool may_spin() const { return may_spin_; }
  size_t slot_bytes() const { return slot_bytes_; }

  // Of a local rank; half: 0 or 1.
  std::byte* slot(int local, unsigned half) const;
  // Between this rank and a local one, in each direction.
  Mail& mail_to(int local, uint64_t stage) const { return mail(own_, local, stage); }
  const Mail& mail_from(int local, uint64_t stage) const { return mail(local, own_, stage); }
  Receipt& receipt_to(int local) const { return receipt(own_, local); }
  const Receipt& receipt_from(int local) const { return receipt(local, own_); }
  Access& access(int local) const { return accesses_[local]; }
  Doorbell* doorbell(int local) const { return doorbells_[static_cast<size_t>(local)]; }

  // Announces the operation that this rank is in.
  void announce(uint64_t operation, const std::byte* header);
  // Copies the header of the operation of that number on a local rank; false: it is not in it (any more, or yet).
  bool announced(int local, uint64_t operation, std::byte* header) const;

  // What this rank knows of its dealings with one local rank.
  struct Pair {
    uint64_t stage = 0;  // the one entered last
    uint64_t met = 0;  // the last one in which a post of the peer was seen
    uint64_t left = 0;  // the last one that the peer is known to have left
    uint64_t posts = 0;  // by either side before the stage entered last
    std::array<uint64_t, 2> used{};  // the last stage in which the peer may read each of our slot areas
  };
  Pair& pair(int local) { return pairs_[static_cast<size_t>(local)]; }
  // The slot area for the next stage that uses one.
  unsigned next_half() { return ++slot_stages_ & 1; }
  // The one of the last such stage.
  unsigned half() const { return slot_stages_ & 1; }

 private:
  size_t index(int from, int to) const { return static_cast<size_t>(from * nlocal_ + to); }
  Mail& mail(int from, int to, uint64_t stage) const { return mails_[2 * index(from, to) + (stage & 1)]; }
  Receipt& receipt(int from, int to) const { return receipts_[index(from, to)]; }

  int nlocal_;
  int own_;
  size_t slot_bytes_;
  bool may_spin_;
  std::vector<int> local_of_;
  bool has_all_;
  std::vector<Doorbell*> doorbells_;
  std::vector<Pair> pairs_;
  uint64_t slot_stages_ = 0;
  Mail* mails_;
  Receipt* receipts_;
  Notice* notices_;
  Access* accesses_;
  std::byte* slots_;
};

}  // namespace ccore
