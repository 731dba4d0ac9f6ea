// The id of this process without a system call, for what runs in every operation.
#pragma once

#include <sys/types.h>

namespace ccore {

// What getpid() returns, in a forked child too.
pid_t process_id();

}  // namespace ccore
