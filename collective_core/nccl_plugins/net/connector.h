// Opens the sockets of one connection.
#pragma once

#include <memory>
#include <vector>

#include "common/clock.h"
#include "common/unique_fd.h"
#include "net/handle.h"
#include "net/send_comm.h"
#include "net/settings.h"

namespace ccore::nccl {

class Connector {
 public:
  // Throws ccore::Error for a handle that this version of the plugin did not make.
  Connector(const Handle& handle, const Settings& settings);

  // Null until all sockets are connected. Does not block. Throws ccore::Error if the peer cannot be reached.
  std::unique_ptr<SendComm> progress();

 private:
  struct Socket {
    UniqueFd fd;
    bool connected = false;
    size_t sent = 0;  // of the hello
  };

  bool advance(Socket* socket, uint32_t index);

  const Handle handle_;
  const Settings settings_;
  uint64_t connection_ = 0;
  std::vector<Socket> sockets_;
  Deadline deadline_;
};

}  // namespace ccore::nccl
