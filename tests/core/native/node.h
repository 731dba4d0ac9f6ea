// N ranks of one node as threads, with an arena, each other's memory and nothing else: no rendezvous, no monitor, no byte rings.
#pragma once

#include <functional>

#include "collectives/context.h"
#include "transport/shm/arena.h"

namespace test {

// Runs body on every rank; operation.sequence of its context is 0. It throws when it waits after 100 s.
void run_node(int nranks, size_t slot_bytes, const std::function<void(const ccore::Context&)>& body);

}  // namespace test
