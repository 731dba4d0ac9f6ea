// ncclGroupStart and ncclGroupEnd: what a thread has called between them.
#pragma once

#include "communicator.h"
#include "counters.h"

namespace ccore_nccl {

// A call that collective_core takes.
struct Call {
  Function function;
  Communicator* communicator;
  const void* send;
  void* recv;
  size_t count;
  cc_dtype dtype;
  cc_redop op;
  int root;  // of a broadcast; the other rank of a send or receive
  Stream stream;
  size_t bytes;
};

// Runs it, or keeps it for the end of this thread's group.
Result take(const Call& call);

Result group_start();
Result group_end();
// Ends the group without its calls, as ncclGroupSimulateEnd.
void forget_group();

// A communicator that NCCL made with this code. It is attached now, or at the end of this thread's group.
Result after_init(Result code, Comm* made, bool blocking);

}  // namespace ccore_nccl
