// How a thread waits for its links: spin, then yield, then sleep in the kernel until something can move.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "transport/link.h"

namespace ccore {

// In shared memory, one per rank of the node. Others ring it after they moved bytes to or from its owner.
struct alignas(64) Doorbell {
  std::atomic<uint32_t> rings{0};
  std::atomic<uint32_t> waiting{0};
};

// Wakes the owner if it sleeps. Call after the bytes were published.
void ring(Doorbell* doorbell);
// Wakes the owner in any case: for news that are not bytes.
void ring_always(Doorbell* doorbell);

// Between two looks at memory that another core writes.
void relax();

// A pure spin pays only if every spinning rank has a core to itself and one to spare for its peer.
bool may_spin(int cores, int ranks_on_host);

class WaitLadder {
 public:
  // doorbell: this rank's own. wake_fd: becomes readable on news that are not bytes. check: throws when the
  // operation is over for another reason (abort, deadline, a failed peer).
  WaitLadder(Doorbell* doorbell, int wake_fd, bool spin, std::function<void()> check);
  ~WaitLadder();
  WaitLadder(const WaitLadder&) = delete;
  WaitLadder& operator=(const WaitLadder&) = delete;

  void moved();
  // Nothing could move. want_send, want_recv: the links that would help; null when that half has no wish.
  void idle(const Link* want_send, const Link* want_recv);
  // The same for any number of them.
  void idle(const std::vector<const Link*>& want_send, const std::vector<const Link*>& want_recv);
  // No sleep is longer; for a caller with other things to do.
  void sleep_at_most(int milliseconds);
  // For a caller that may go on for long without ever being idle: throws when the operation is over.
  void check() const { check_(); }

 private:
  // True when it is time to sleep.
  bool idle_awake();
  void sleep_on_memory();
  void sleep_on_sockets(const Link* const* want_send, size_t sends, const Link* const* want_recv, size_t recvs);

  Doorbell* doorbell_;
  int wake_fd_;
  int spins_;
  std::function<void()> check_;
  int idle_count_ = 0;
  long longest_sleep_ns_;
  bool armed_ = false;  // our waiting flag is up and `seen_` was read after that
  uint32_t seen_ = 0;
};

}  // namespace ccore
