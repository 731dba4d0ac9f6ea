// Runs a schedule over links: all steps of a lane as one stream of bytes in each direction, so that a byte flows
// on to the next rank as soon as it has arrived (and was reduced), whatever block it belongs to. Lanes take turns.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/context.h"
#include "reduce/kernels.h"
#include "schedule/schedule.h"

namespace ccore {

// A schedule's step with its memory.
struct StreamStep {
  int send_peer = kNone;
  const std::byte* send_from = nullptr;
  size_t send_bytes = 0;
  int send_after = kNone;  // see Step

  int recv_peer = kNone;
  std::byte* recv_to = nullptr;
  const std::byte* local = nullptr;  // the other operand: this rank's input, or what it holds; unused by copies
  size_t recv_bytes = 0;
  Action action = Action::copy;
  bool completes = false;
  // The step whose bytes must have left before recv_to may be written, because it sends from there.
  int recv_after_send = kNone;
  // The step in another lane that must have received the bytes on which these are folded.
  int recv_after_recv = kNone;
  int lane = 0;  // see Step
};

struct Reduction {
  ReduceFunction hop = nullptr;
  ReduceFunction last = nullptr;
  size_t element_bytes = 1;
};

// Throws Error; CC_ERROR_DESYNC when a peer's operation is not context.operation.
void run_stream(const Context& context, const std::vector<StreamStep>& steps, const Reduction& reduction);

}  // namespace ccore
