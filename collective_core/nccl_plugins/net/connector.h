// Opens the sockets of one connection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/unique_fd.h"
#include "net/handle.h"
#include "net/send_comm.h"
#include "net/settings.h"
#include "transport/tcp/handshake.h"

namespace ccore::nccl {

class Connector {
 public:
  // Throws ccore::Error for a handle that this version of the plugin did not make.
  Connector(const Handle& handle, const Settings& settings);

  // Null until the peer has accepted all sockets. Does not block. Throws ccore::Error if the peer cannot be reached.
  std::unique_ptr<SendComm> progress();

 private:
  struct Socket {
    UniqueFd fd;  // none: before the next attempt
    std::optional<Introduction> introduction;  // once it is connected
    bool done = false;
    int patience_ms = 0;
    Deadline patience = Deadline::in_ms(0);  // of this attempt, or until the next one
  };

  void begin(Socket* socket);
  void advance(Socket* socket, int32_t index);
  // Another attempt follows.
  void give_up(Socket* socket);

  const Handle handle_;
  const Settings settings_;
  Hello hello_;
  std::vector<Socket> sockets_;
  Deadline deadline_;
};

}  // namespace ccore::nccl
