// Anonymous files (memfd): memory that other processes can map through /proc/PID/fd, and that is on no file system.
#pragma once

#include "common/unique_fd.h"

namespace ccore {

// Empty; name: as /proc shows it. Throws CC_ERROR_SYSTEM.
UniqueFd make_memory_file(const char* name);

}  // namespace ccore
