// One meeting of some ranks of a node in the memory that they share. Each posts that it has written something, waits
// for what the others post, reads it where it lies, and posts again, in an order that all know.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/context.h"
#include "common/caches.h"
#include "schedule/schedule.h"
#include "transport/shm/arena.h"

namespace ccore {

class Stage {
 public:
  // What the members write: a few bytes beside the first post; more in their slot areas; or that and, in the areas of
  // others, answers which these have read before they finish, so that only its owner looks at an area afterwards.
  enum class Data { inlined, slots, returned };

  // Every member of the context makes the same stage. With a root, it meets all others, and they meet it alone. Waits
  // until no rank reads what this rank is about to write over: in its slots, if its data is there. context.arena is not
  // null.
  Stage(const Context& context, Data data, int root = kNone);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // Not Data::inlined: this rank's slot area, and that of another member.
  std::byte* slot() const { return arena_.slot(local(context_.rank), half_); }
  std::byte* slot_of(int member) const;
  // Data::inlined: what a member inlined.
  const std::byte* inlined_of(int member) const;

  // Whether this rank meets that one.
  bool meets(int member) const {
    return member != context_.rank && (root_ == kNone || context_.rank == root_ || member == root_);
  }
  // For data that is all inlined: a peer that sleeps hears of the first post by the end of the stage, or when this rank
  // stops spinning. Between the post and either of them lies no long work.
  void ring_later() { rings_later_ = arena_.may_spin(); }
  // All that this rank has written before may be read by all that it meets.
  void post();
  // The first post with at most Arena::kInlineBytes of data.
  void post_inlined(const std::byte* data, size_t bytes);
  // The same with data for each: inlined_for(member, to) writes it.
  template <typename InlinedFor>
  void post_inlined(InlinedFor inlined_for) {
    inlined_bytes_ = kCacheLine;
    for (int member = 0; member < context_.nranks; ++member) {
      if (meets(member)) inlined_for(member, inlined_to(member));
    }
    post();
  }
  // Returns when all that it meets have posted as many times. Throws CC_ERROR_DESYNC if one is in another operation.
  void wait(uint64_t posts);
  // This rank reads nothing more. Throws CC_ERROR_DESYNC if one that it meets and has not waited for is known to be in
  // another operation: of two such ranks, the one that was there last knows. posts: how many the stage has, of which a
  // rank may have made fewer; 0: as many as this one has made. Not called after an error: then no rank may write over
  // what is here.
  void finish(uint64_t posts = 0);

  // Payload that the member reads from this rank's area, or this rank from its.
  void count_sent(int member, size_t bytes) const { context_.link(member).payload_bytes_sent += bytes; }
  void count_received(int member, size_t bytes) const { context_.link(member).payload_bytes_received += bytes; }

 private:
  int local(int member) const { return arena_.local_of(context_.rank_of(member)); }
  std::byte* inlined_to(int member) const;
  void wait_for(int member, uint64_t posts);
  void check_header(int member, const Mail& mail) const;
  void check_unmet() const;
  template <typename Ready>
  void wait_until(int member, Ready ready) const;
  void ring_for_posts() const;
  void require_left(int member, int local, uint64_t stage) const;
  void fetch_next_mail(const Arena::Pair& pair, int local) const;

  const Context& context_;
  Arena& arena_;
  int root_;
  unsigned half_ = 0;
  uint64_t posted_ = 0;
  size_t inlined_bytes_ = 0;
  bool rings_later_ = false;
  mutable bool rings_due_ = false;  // who sleeps has not been told of the last post
};

}  // namespace ccore
