// Moves data inside a node by one copy of the kernel between the ranks' own buffers (transport/shm/cross_memory.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "collectives/shm/cross_offers.h"
#include "collectives/shm/exchange.h"
#include "collectives/shm/mutual_access.h"

namespace ccore {

// As exchange_by_slots(). Without a root every rank fetches what is for it. With one the others do all the copying, each
// its own part, from the root's buffer or to it. False, and nothing is done: the kernel does not copy from a buffer, as
// all ranks know then. context.arena and context.cross_memory are not null.
template <typename LeavingFor, typename ComingFrom>
bool exchange_by_kernel(const Context& context, const ExchangeShape& shape, LeavingFor leaving, ComingFrom coming) {
  Stage stage(context, Stage::Data::inlined, shape.root);
  MutualAccess access(context);
  const bool offers = shape.root == kNone || context.rank == shape.root;
  const bool copies = shape.root == kNone || context.rank != shape.root;
  const bool reads = shape.role != StreamRole::writes;
  // Of the root of a gather, where the others write; else what they read.
  const auto offered = [&](int member) -> Leaving {
    if (shape.root == kNone || !reads) return leaving(member);
    const Coming part = coming(member);
    return Leaving{part.at, part.bytes};
  };
  bool reached = true;
  if (offers) reached = post_offers(&stage, context, offered);
  if (copies) {
    stage.wait(1);
    reached = all_reached(stage, context) && reached;
  }
  // Where the buffers are, and that they are left alone again, whichever of two ranks says which.
  constexpr uint64_t kPosts = 2;
  if (!reached) {
    stage.finish(kPosts);
    access.finish();
    return false;
  }
  if (shape.moves_own()) std::memcpy(shape.own_to, shape.own.at, shape.own.bytes);
  // Each rank begins with another one: they do not crowd at the first.
  for (int step = 1; copies && step < context.nranks; ++step) {
    const int member = (context.rank + step) % context.nranks;
    if (!stage.meets(member)) continue;
    const uint64_t there = offer_of(stage, member).address;
    if (reads) {
      const Coming part = coming(member);
      fetch(context, access, member, part.at, there, part.bytes);
    } else {
      const Leaving part = leaving(member);
      deliver(context, access, member, there, part.at, part.bytes);
    }
  }
  for (int member = 0; member < context.nranks; ++member) {
    if (!stage.meets(member)) continue;
    if (shape.role != StreamRole::reads) stage.count_sent(member, leaving(member).bytes);
    if (reads) stage.count_received(member, coming(member).bytes);
  }
  if (copies) stage.post();
  // A root has the others' first post then, which is their only one.
  if (offers) stage.wait(shape.root == kNone ? 2 : 1);
  stage.finish(kPosts);
  access.finish();
  return true;
}

}  // namespace ccore
