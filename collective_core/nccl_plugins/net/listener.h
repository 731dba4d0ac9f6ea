// Waits for the sockets of connections that other ranks open.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/unique_fd.h"
#include "net/devices.h"
#include "net/handle.h"
#include "net/receive_comm.h"
#include "net/settings.h"
#include "transport/tcp/acceptor.h"

namespace ccore::nccl {

// Strangers do not delay it (acceptor.h). Those at all listeners of the process together hold no more descriptors than
// those at a rendezvous.
class Listener {
 public:
  Listener(const Device& device, const Settings& settings, Handle* handle);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Null until all sockets of one connection have come. Does not block.
  std::unique_ptr<ReceiveComm> accept();

 private:
  // The random number that all sockets of a connection bring.
  using ConnectionId = std::pair<int32_t, int32_t>;
  struct Group {
    std::vector<UniqueFd> sockets;
    Deadline deadline;

    size_t here() const;
  };

  void introduce(Accepted accepted);
  // A connection whose other sockets do not come.
  void check_groups();

  const Settings settings_;
  std::unique_ptr<Acceptor> acceptor_;
  std::map<ConnectionId, Group> groups_;
};

}  // namespace ccore::nccl
