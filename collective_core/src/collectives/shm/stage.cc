#include "collectives/shm/stage.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "common/error.h"
#include "schedule/schedule.h"

namespace ccore {
namespace {

// Looks at shared memory before the ladder, which yields and sleeps: some microseconds, in which a peer that runs
// answers a small operation. One that does not run may be waiting for this core.
constexpr int kSpins = 200;
// The first of them without the pause between two looks, which can take longer than the answer.
constexpr int kEagerSpins = 64;

static_assert(sizeof(Operation) == kHeaderBytes, "the header of the mail is the operation");

// GCC's thread sanitizer knows no fences (-Wtsan). What it gets instead orders nothing less on x86.
void fence() {
#if defined(__SANITIZE_THREAD__)
  std::atomic<int> own{0};
  own.fetch_add(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

Stage::Stage(const Context& context, Data data, int root) : context_(context), arena_(*context.arena), root_(root) {
  for (int member = 0; member < context.nranks; ++member) {
    if (!meets(member)) continue;
    const int peer = local(member);
    // The mailbox of this stage is the one of the stage before the last.
    const uint64_t stage = ++arena_.pair(peer).stage;
    if (stage > 2) require_left(member, peer, stage - 2);
  }
  if (data == Data::inlined) return;
  // Always the same half as long as nothing else needs the other: half the memory to keep in the caches.
  half_ = data == Data::returned ? arena_.half() : arena_.next_half();
  // Its last readers need not be members of this stage.
  for (int peer = 0; peer < arena_.nlocal(); ++peer) require_left(kNone, peer, arena_.pair(peer).used[half_]);
  if (data == Data::returned) return;
  for (int member = 0; member < context.nranks; ++member) {
    if (!meets(member)) continue;
    Arena::Pair& pair = arena_.pair(local(member));
    pair.used[half_] = pair.stage;
  }
}

std::byte* Stage::slot_of(int member) const {
  if (member == context_.rank) return slot();
  const int peer = local(member);
  const Mail& mail = arena_.mail_from(peer, arena_.pair(peer).stage);
  return arena_.slot(peer, mail.posts.load(std::memory_order_relaxed) & 1);
}

const std::byte* Stage::inlined_of(int member) const {
  const int peer = local(member);
  return arena_.mail_from(peer, arena_.pair(peer).stage).inlined.data();
}

std::byte* Stage::inlined_to(int member) const {
  const int peer = local(member);
  return arena_.mail_to(peer, arena_.pair(peer).stage).inlined.data();
}

void Stage::post_inlined(const std::byte* data, size_t bytes) {
  for (int member = 0; member < context_.nranks; ++member) {
    if (meets(member) && bytes > 0) std::memcpy(inlined_to(member), data, bytes);
  }
  inlined_bytes_ = bytes;
  post();
}

void Stage::post() {
  ++posted_;
  for (int member = 0; member < context_.nranks; ++member) {
    if (!meets(member)) continue;
    const int peer = local(member);
    const Arena::Pair& pair = arena_.pair(peer);
    Mail& mail = arena_.mail_to(peer, pair.stage);
    if (posted_ == 1) std::memcpy(mail.header.data(), &context_.operation, kHeaderBytes);
    mail.posts.store(2 * (pair.posts + posted_) + half_, std::memory_order_release);
    if (!rings_later_) ring(arena_.doorbell(peer));
  }
  rings_due_ = rings_later_;
}

// A look at a doorbell waits until the lines of the mail have come from the peer's core, and whatever this rank reads next
// waits for it.
void Stage::ring_for_posts() const {
  for (int member = 0; rings_due_ && member < context_.nranks; ++member) {
    if (meets(member)) ring(arena_.doorbell(local(member)));
  }
  rings_due_ = false;
}

void Stage::wait(uint64_t posts) {
  for (int member = 0; member < context_.nranks; ++member) {
    if (meets(member)) wait_for(member, posts);
  }
}

void Stage::wait_for(int member, uint64_t posts) {
  const int peer = local(member);
  Arena::Pair& pair = arena_.pair(peer);
  const Mail& mail = arena_.mail_from(peer, pair.stage);
  const uint64_t wanted = 2 * (pair.posts + posts);
  const auto ready = [&] { return mail.posts.load(std::memory_order_acquire) >= wanted; };
  if (!ready()) wait_until(member, ready);
  if (pair.met == pair.stage) return;
  check_header(member, mail);
  pair.met = pair.stage;
  pair.left = pair.stage - 1;  // for it posts here
}

void Stage::check_header(int member, const Mail& mail) const {
  Operation received;
  std::memcpy(&received, mail.header.data(), sizeof received);
  require_same(context_.operation, context_.rank_of(context_.rank), received, context_.rank_of(member));
}

// Who only writes reads no header; two that both do would never find out.
void Stage::check_unmet() const {
  if (context_.operation.sequence == 0) return;  // no call of a communicator's: it is announced nowhere
  bool fenced = false;
  for (int member = 0; member < context_.nranks; ++member) {
    if (!meets(member) || arena_.pair(local(member)).met == arena_.pair(local(member)).stage) continue;
    // Between what this rank has announced and what it reads of the others: one of two sees the other.
    if (!fenced) fence();
    fenced = true;
    // Who was here, and only wrote, may be several operations ahead, and its announcement gone; its mail is still here.
    const Arena::Pair& pair = arena_.pair(local(member));
    const Mail& mail = arena_.mail_from(local(member), pair.stage);
    if (mail.posts.load(std::memory_order_acquire) >= 2 * (pair.posts + 1)) {
      check_header(member, mail);
      continue;
    }
    Operation called;
    if (!arena_.announced(local(member), context_.operation.sequence, reinterpret_cast<std::byte*>(&called))) continue;
    Operation own = context_.operation;
    own.algorithm = called.algorithm;  // is chosen after the announcement
    require_same(own, context_.rank_of(context_.rank), called, context_.rank_of(member));
  }
}

void Stage::require_left(int member, int peer, uint64_t stage) const {
  Arena::Pair& pair = arena_.pair(peer);
  if (pair.left >= stage) return;
  const auto left = [&] {
    pair.left = std::max(pair.left, arena_.receipt_from(peer).stage.load(std::memory_order_acquire));
    return pair.left >= stage;
  };
  if (!left()) wait_until(member, left);
}

template <typename Ready>
void Stage::wait_until(int member, Ready ready) const {
  if (arena_.may_spin()) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (spin >= kEagerSpins) relax();
      if (ready()) return;
    }
  }
  ring_for_posts();
  *context_.waiting_to_receive_from = member == kNone ? kNone : context_.rank_of(member);
  *context_.waiting_to_send_to = kNone;
  while (!ready()) context_.wait->idle(nullptr, nullptr);
  context_.wait->moved();
}

void Stage::finish(uint64_t posts) {
  check_unmet();
  for (int member = 0; member < context_.nranks; ++member) {
    if (!meets(member)) continue;
    const int peer = local(member);
    Arena::Pair& pair = arena_.pair(peer);
    pair.posts += posts == 0 ? posted_ : posts;
    arena_.receipt_to(peer).stage.store(pair.stage, std::memory_order_release);
    ring(arena_.doorbell(peer));
    if (inlined_bytes_ > 0) fetch_next_mail(pair, peer);
  }
}

// Of small operations one usually follows another of its kind, and most of its time is the wait for these lines, which the
// peer has read last: 64 bytes took 0.49 us without it and 0.36 us with it on an EPYC.
void Stage::fetch_next_mail(const Arena::Pair& pair, int local) const {
  const Mail& next = arena_.mail_to(local, pair.stage + 1);
  fetch_for_store(&next);
  for (size_t at = 0; at < inlined_bytes_; at += kCacheLine) fetch_for_store(&next.inlined[at]);
}

}  // namespace ccore
