// A descriptor that one thread makes readable to wake another one out of poll().
#pragma once

#include "common/unique_fd.h"

namespace ccore {

// Throws CC_ERROR_SYSTEM.
UniqueFd make_event();
void signal_event(int fd);
// Not readable any more, until the next signal.
void clear_event(int fd);

}  // namespace ccore
