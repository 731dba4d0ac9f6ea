// How ranks that reduce without slots tell each other where their buffers are, and that they are done with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective_core/collective_core.h"
#include "collectives/context.h"
#include "collectives/stage.h"
#include "transport/shm/windows.h"

namespace ccore {

// Of a rank; travels as bytes.
struct Offer {
  WindowPlace send;  // in what all have registered
  WindowPlace recv;
  uint64_t send_address = 0;  // in the rank's own memory, of which the kernel can copy; 0: it cannot
  uint64_t recv_address = 0;

  bool in_windows() const { return send.window != 0 && recv.window != 0; }
  bool has_addresses() const { return send_address != 0 && recv_address != 0; }
};

// Where these buffers lie; by_kernel: their addresses too.
Offer offer_of(const Context& context, const void* send, const void* recv, size_t bytes, bool by_kernel);
// Those of all, by member; all see the same, and so come to the same conclusions.
std::vector<Offer> exchange_offers(Stage* stage, const Context& context, const Offer& own);
bool all_in_windows(const std::vector<Offer>& offers);
bool all_have_addresses(const std::vector<Offer>& offers);

// Every rank has reduced its block of all inputs and written it into all outputs: returns when all have, and counts the
// bytes.
void end_without_slots(Stage* stage, const Context& context, size_t count, size_t element);

}  // namespace ccore
