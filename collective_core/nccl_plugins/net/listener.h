// Waits for the sockets of connections that other ranks open.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/unique_fd.h"
#include "net/devices.h"
#include "net/handle.h"
#include "net/receive_comm.h"
#include "net/settings.h"

namespace ccore::nccl {

class Listener {
 public:
  Listener(const Device& device, const Settings& settings, Handle* handle);

  // Null until all sockets of one connection have come. Does not block.
  std::unique_ptr<ReceiveComm> accept();

 private:
  // A socket whose hello has not come as a whole.
  struct Newcomer {
    UniqueFd fd;
    std::array<unsigned char, sizeof(Hello)> bytes;
    size_t got = 0;
    Deadline deadline;
  };
  struct Group {
    std::vector<UniqueFd> sockets;
    size_t here = 0;
    Deadline deadline;
  };

  void take_newcomers();
  // False when the socket is to be closed.
  bool hear(Newcomer* newcomer, bool* heard);
  bool introduce(Newcomer* newcomer);
  // A connection whose other sockets do not come.
  void check_groups();

  const Settings settings_;
  UniqueFd fd_;
  Token token_;
  std::vector<Newcomer> newcomers_;
  std::map<uint64_t, Group> groups_;
};

}  // namespace ccore::nccl
