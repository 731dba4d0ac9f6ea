// The connecting side: connects and proves the secret, and tries again when the other side drops the connection before it
// judged the proof.
#pragma once

#include <string>

#include "common/clock.h"
#include "common/sha256.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/socket.h"

namespace ccore {

// Sets the hello's timeout to the time that is left at each attempt. from: the own address to use, null for any. Throws
// what connect_to() and introduce() throw; Unnoticed only at the deadline.
Connection reach(const Address& address, const Digest& secret, Hello hello, const Deadline& deadline,
                 const std::string& who, const Address* from = nullptr, const Alarm* alarm = nullptr);

}  // namespace ccore
