// Lines in NCCL's log, through the function that NCCL gives to a plugin.
#pragma once

#include "abi/nccl.h"

namespace ccore::nccl {

void set_logger(Logger logger);
// NCCL prints it with NCCL_DEBUG=INFO and one of the subsystems in NCCL_DEBUG_SUBSYS.
void info(unsigned long subsystems, const char* pattern, ...) __attribute__((format(printf, 2, 3)));
void warn(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

}  // namespace ccore::nccl
