// The meeting point of a communicator: a thread that waits for all ranks, then passes their messages around.
#pragma once

#include "common/sha256.h"
#include "common/unique_fd.h"

namespace ccore {

// Returns at once. The thread ends when all ranks have left; when one of them fails or dies, which it tells the
// others at once; or a moment before the first of them would lose patience, when it tells those that are there who is
// missing.
void start_root(UniqueFd listener, const Digest& secret);

// After the handshake, rounds of messages (channel.h): every rank sends one with its bytes, and the root answers with
// those of all. Their status is a cc_result; when it is another than CC_SUCCESS the bytes are an error text. In the last
// round every rank sends kLeaves, and gets no answer.
constexpr uint32_t kLeaves = 1000;  // no cc_result
constexpr uint32_t kMostRendezvousBytes = 64 * 1024;  // per rank and round

}  // namespace ccore
