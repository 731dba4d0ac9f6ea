// Two shots without slots: how ranks tell each other where their buffers are and that they are done with them, and the
// reduction where the data lies in registered memory (transport/shm/windows.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective_core/collective_core.h"
#include "collectives/context.h"
#include "collectives/shm/mutual_access.h"
#include "collectives/shm/stage.h"
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

// Smaller data goes through the slots, registered or not.
constexpr size_t kLeastRegisteredBytes = 64 * 1024;

// Each rank reduces its block of the others' inputs where they lie, and writes it into everyone's output. False, and
// nothing is done: on some rank a buffer is not registered; which of them it is, only that rank need know. Called by all
// ranks or none; context.arena and context.windows are not null.
bool all_reduce_registered(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                           cc_redop op);

// This rank's part of it, where all offers are in windows: its block of all inputs into all outputs.
void reduce_in_windows(const Context& context, const MutualAccess& access, const std::vector<Offer>& offers,
                       size_t count, cc_dtype dtype, cc_redop op);

}  // namespace ccore
