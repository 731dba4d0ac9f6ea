#include "transport/progress.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace ccore {
namespace {

constexpr int kSpins = 4000;
constexpr int kYields = 100;
constexpr int kCheckEvery = 64;
// The longest sleep without a look at deadline and errors. News ring the doorbell, so this is a safety net.
constexpr int kSleepMs = 20;
// Between looks at shared memory while asleep on sockets, in nanoseconds.
constexpr long kMixedSleepNs = 200000;

// The word lives in a segment shared by processes, hence not FUTEX_PRIVATE.
long futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), operation, value, timeout, nullptr, 0);
}

}  // namespace

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void ring(Doorbell* doorbell) {
  // Both sides change the flag in one order: either we come second and see it raised, or the sleeper comes
  // second, thereby sees the bytes that we published before, and does not sleep.
  if (doorbell->waiting.fetch_add(0, std::memory_order_acq_rel) != 0) ring_always(doorbell);
}

void ring_always(Doorbell* doorbell) {
  doorbell->rings.fetch_add(1, std::memory_order_seq_cst);
  futex(&doorbell->rings, FUTEX_WAKE, INT_MAX, nullptr);
}

bool may_spin(int cores, int ranks_on_host) { return cores >= 2 * ranks_on_host; }

WaitLadder::WaitLadder(Doorbell* doorbell, int wake_fd, bool spin, std::function<void()> check)
    : doorbell_(doorbell),
      wake_fd_(wake_fd),
      spins_(spin ? kSpins : 0),
      check_(std::move(check)),
      longest_sleep_ns_(kSleepMs * 1000000L) {}

WaitLadder::~WaitLadder() {
  if (armed_) doorbell_->waiting.store(0, std::memory_order_relaxed);
}

void WaitLadder::moved() {
  idle_count_ = 0;
  if (armed_) {
    doorbell_->waiting.store(0, std::memory_order_relaxed);
    armed_ = false;
  }
}

bool WaitLadder::idle_awake() {
  ++idle_count_;
  if (idle_count_ % kCheckEvery == 0) check_();
  if (idle_count_ <= spins_) {
    relax();
    return false;
  }
  if (idle_count_ <= spins_ + kYields) {
    sched_yield();
    return false;
  }
  check_();
  return true;
}

void WaitLadder::idle(const Link* want_send, const Link* want_recv) {
  if (!idle_awake()) return;
  const bool sockets = (want_send && want_send->fd() >= 0) || (want_recv && want_recv->fd() >= 0);
  if (!sockets) return sleep_on_memory();
  sleep_on_sockets(&want_send, want_send ? 1 : 0, &want_recv, want_recv ? 1 : 0);
}

void WaitLadder::idle(const std::vector<const Link*>& want_send, const std::vector<const Link*>& want_recv) {
  if (!idle_awake()) return;
  const auto is_socket = [](const Link* link) { return link->fd() >= 0; };
  const bool sockets = std::any_of(want_send.begin(), want_send.end(), is_socket) ||
                       std::any_of(want_recv.begin(), want_recv.end(), is_socket);
  if (!sockets) return sleep_on_memory();
  sleep_on_sockets(want_send.data(), want_send.size(), want_recv.data(), want_recv.size());
}

void WaitLadder::sleep_at_most(int milliseconds) {
  longest_sleep_ns_ = std::max(1, std::min(milliseconds, kSleepMs)) * 1000000L;
}

void WaitLadder::sleep_on_memory() {
  if (!armed_) {
    // Raise the flag, then let the caller look once more before we sleep.
    doorbell_->waiting.exchange(1, std::memory_order_acq_rel);
    seen_ = doorbell_->rings.load(std::memory_order_acquire);
    armed_ = true;
    return;
  }
  const timespec timeout{0, longest_sleep_ns_};
  futex(&doorbell_->rings, FUTEX_WAIT, seen_, &timeout);
  seen_ = doorbell_->rings.load(std::memory_order_seq_cst);
}

void WaitLadder::sleep_on_sockets(const Link* const* want_send, size_t sends, const Link* const* want_recv,
                                  size_t recvs) {
  std::vector<pollfd> fds;
  fds.push_back(pollfd{wake_fd_, POLLIN, 0});
  bool memory_too = false;
  const auto add = [&](const Link* const* links, size_t count, short events) {
    for (size_t i = 0; i < count; ++i) {
      if (links[i]->fd() >= 0) {
        links[i]->add_fds(events, &fds);
      } else {
        memory_too = true;
      }
    }
  };
  add(want_send, sends, POLLOUT);
  add(want_recv, recvs, POLLIN);
  const timespec timeout{0, memory_too ? kMixedSleepNs : longest_sleep_ns_};
  ppoll(fds.data(), fds.size(), &timeout, nullptr);
}

}  // namespace ccore
