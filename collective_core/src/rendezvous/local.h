// Hands rank 0's id to the other ranks of a host, over an abstract unix socket that answers only this user's processes.
#pragma once

#include <string>

#include "common/clock.h"
#include "rendezvous/unique_id.h"

namespace ccore {

// Throws CC_ERROR_TIMEOUT that names the ranks that did not come, and CC_ERROR_SYSTEM.
UniqueId share_id_locally(int rank, int size, const std::string& job, const Deadline& deadline);

}  // namespace ccore
