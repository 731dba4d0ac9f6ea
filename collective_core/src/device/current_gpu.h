// Which GPU this rank works on.
#pragma once

#include <string>

namespace ccore {

// The PCI address of the GPU of the CUDA context that is current on this thread, such as "0000:18:00.0"; empty: there is
// no driver in this process, or no context. Loads no driver and makes no context.
std::string current_gpu();

}  // namespace ccore
