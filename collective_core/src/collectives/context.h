// All that a collective sees of the world: its rank, its links, how to wait, and how to name a failure.
#pragma once

#include <functional>

#include "collectives/operation.h"
#include "transport/link.h"
#include "transport/progress.h"

namespace ccore {

struct Context {
  int rank;
  int nranks;
  std::function<Link&(int)> link;  // to a rank other than this one
  WaitLadder* wait;
  // What is waited for, kept up to date for the text of a timeout: ranks, or -1.
  int* waiting_to_send_to;
  int* waiting_to_receive_from;
  Operation operation;
  std::function<bool(int)> has_left;  // whether that rank has destroyed its communicator
};

}  // namespace ccore
