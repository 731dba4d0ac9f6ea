// Whether NCCL uses the net plugin in this process, which the tuner's table depends on.
#pragma once

#include <atomic>

namespace ccore::nccl {

std::atomic<bool>& net_is_used();

}  // namespace ccore::nccl
