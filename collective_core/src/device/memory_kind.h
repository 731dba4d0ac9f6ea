// Whether an address is host memory or that of a CUDA device, as the driver of this process has it.
#pragma once

#include "collective_core/collective_core.h"

namespace ccore {

// Looks for a CUDA driver that the program has loaded by now; this library loads none. Without one all memory is host
// memory. Any thread, any number of times.
void look_for_driver();

// Of the buffers of one operation, as its options say; either buffer may be null. Throws CC_ERROR_INVALID_ARGUMENT if they
// are of two kinds.
cc_memory memory_of(const void* send, const void* recv, const cc_op_options& options);

}  // namespace ccore
