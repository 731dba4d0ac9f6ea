// Moves data inside a node through the slot areas, or, where no part has more than 192 bytes, beside the marks by which
// the ranks tell each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "collectives/shm/exchange.h"
#include "collectives/shm/slot_stream.h"

namespace ccore {

// leaving(member): what this rank has for that one, if it writes; coming(member): where what that one has for this rank
// belongs, if it reads. context.arena is not null.
template <typename LeavingFor, typename ComingFrom>
void exchange_by_slots(const Context& context, const ExchangeShape& shape, LeavingFor leaving, ComingFrom coming) {
  const auto members = static_cast<size_t>(context.nranks);
  // A part for this rank itself is left empty; with it the places are the same for all.
  const StreamPlan plan(shape.largest, shape.alike ? 1 : members, 1, context.arena->slot_bytes(), shape.root != kNone);
  const bool in_slots = !plan.inlined() && shape.role != StreamRole::reads;
  Stage stage(context, in_slots ? Stage::Data::slots : Stage::Data::inlined, shape.root);
  const size_t piece = plan.piece_bytes();
  const size_t coming_bytes = shape.largest * (shape.root == kNone || context.rank == shape.root ? members - 1 : 1);
  const auto copy = coming_bytes >= context.past_caches_bytes ? copy_past_caches : copy_into_caches;
  const auto bytes_of = [piece](size_t c, size_t bytes) { return std::min(piece, bytes - std::min(bytes, c * piece)); };
  const auto part_at = [&](size_t c, int member) {
    return plan.part_at(c, shape.alike ? 0 : static_cast<size_t>(member));
  };
  // Where the same data was written for others, it is in the cache.
  const auto move_own = [&](size_t c) {
    const size_t bytes = shape.moves_own() ? bytes_of(c, shape.own.bytes) : 0;
    if (bytes > 0) copy(shape.own_to + c * piece, shape.own.at + c * piece, bytes);
  };
  const bool takes_over = context.takes_over && !plan.inlined() && (!shape.alike || context.nranks == 2);
  const auto read = [&](size_t c) {
    for (int member = 0; member < context.nranks; ++member) {
      if (!stage.meets(member)) continue;
      const Coming part = coming(member);
      const size_t bytes = bytes_of(c, part.bytes);
      if (bytes == 0) continue;
      const std::byte* from =
          plan.inlined() ? stage.inlined_of(member) : stage.slot_of(member) + part_at(c, context.rank);
      copy(part.at + c * piece, from, bytes);
      if (takes_over) take_over(stage.slot_of(member) + part_at(c, context.rank), bytes);
      stage.count_received(member, bytes);
    }
  };
  const auto write = [&](size_t c) {
    bool written = false;
    for (int member = 0; member < context.nranks; ++member) {
      if (!stage.meets(member)) continue;
      const Leaving part = leaving(member);
      const size_t bytes = bytes_of(c, part.bytes);
      stage.count_sent(member, bytes);
      if (bytes == 0 || (shape.alike && written)) continue;
      copy_into_caches(stage.slot() + part_at(c, member), part.at + c * piece, bytes);
      written = true;
    }
  };
  if (!plan.inlined()) return run_slot_stream(&stage, shape.role, plan.chunks(), write, move_own, read);
  stage.ring_later();
  if (shape.role != StreamRole::reads) {
    stage.post_inlined([&](int member, std::byte* to) {
      const Leaving part = leaving(member);
      if (part.bytes > 0) std::memcpy(to, part.at, part.bytes);
      stage.count_sent(member, part.bytes);
    });
  }
  move_own(0);
  if (shape.role != StreamRole::writes) {
    stage.wait(1);
    read(0);
  }
  stage.finish(1);
}

}  // namespace ccore
