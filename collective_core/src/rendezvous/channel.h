// Messages of the rendezvous over one connection: a status and bytes, all of them authenticated.
#pragma once

#include <cstdint>
#include <string>

#include "common/clock.h"
#include "transport/seal.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/socket.h"

namespace ccore {

struct Message {
  uint32_t status = 0;
  std::string bytes;
};

class Channel {
 public:
  // who: the other side in words, for error texts.
  Channel(Connection connection, const std::string& who);

  // Throw what send_all() and recv_all() throw, and NotAuthentic.
  void send(uint32_t status, const std::string& bytes, const Deadline& deadline);
  // Of at most that many bytes; more is CC_ERROR_INTERNAL.
  Message receive(size_t most_bytes, const Deadline& deadline);

  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  Seals seals_;
};

}  // namespace ccore
