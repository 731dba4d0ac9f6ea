// All-to-all: every rank has a part for every rank. bytes: of the part of one rank for another.
#pragma once

#include <vector>

#include "collectives/context.h"
#include "schedule/schedule.h"

namespace ccore {

// By an algorithm of algorithms_of(Kind::all_to_all).
void all_to_all_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t bytes);

// One pair after the other, each rank with a different one at a time.
void all_to_all_pairwise(const Context& context, const void* send, void* recv, size_t bytes);

// Parts of different sizes. out[r]: the part of send that goes to rank r; in[r]: where in recv what comes from rank r
// goes; both in bytes. All pairs move at once: one part that is large or a rank that is late holds up no other pair.
void all_to_all_pairwise(const Context& context, const void* send, const std::vector<Block>& out, void* recv,
                         const std::vector<Block>& in);

// Inside a node: every rank writes the parts of the others into its slots, and reads its own in theirs. context.arena is
// not null.
void all_to_all_oneshot(const Context& context, const void* send, void* recv, size_t bytes);

// Much data inside a node: every rank has the kernel copy its parts of the others' inputs ("cross memory attach");
// through slots where the kernel does not copy. context.arena and context.cross_memory are not null.
void all_to_all_cma(const Context& context, const void* send, void* recv, size_t bytes);

}  // namespace ccore
