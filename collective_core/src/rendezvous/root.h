// The meeting point of a communicator: a thread that waits for all ranks, then passes their messages around.
#pragma once

#include "common/sha256.h"
#include "common/unique_fd.h"

namespace ccore {

// Returns at once. The thread ends when all ranks are done with it, when one of them fails, or when not all
// ranks arrive in the time that the first one was given; then it tells those that did who is missing.
void start_root(UniqueFd listener, const Digest& secret);

// Wire format after the handshake, rounds of: every rank sends Request + bytes; the root answers Reply +
// bytes.
struct RendezvousRequest {
  uint32_t status;  // cc_result; when it is not CC_SUCCESS the bytes are the rank's error text
  uint32_t size;
};
struct RendezvousReply {
  uint32_t status;  // cc_result; an error text follows when it is not CC_SUCCESS
  uint32_t size;
};
constexpr uint32_t kMostRendezvousBytes = 64 * 1024;  // per rank and round

}  // namespace ccore
