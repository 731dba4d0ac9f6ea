// CUDA graphs that hold operations of collective_core.
#pragma once

#include "communicator.h"

namespace ccore_nccl {

// If the stream is being captured: the graph counts as a user of the communicator until it and all that was instantiated
// from it are destroyed, as in NCCL.
void note_capture(Communicator* communicator, Stream stream);

}  // namespace ccore_nccl
