// A link over one non-blocking TCP connection.
#pragma once

#include <string>
#include <vector>

#include "transport/link.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/host_silence.h"

namespace ccore {

class TcpLink : public Link {
 public:
  // who: the peer in words, for error texts.
  TcpLink(Connection connection, std::string who);

  size_t try_send(const std::byte* data, size_t size) override;
  Bytes peek(size_t at_least) override;
  void consume(size_t size) override;
  size_t try_recv(std::byte* data, size_t size) override;
  int fd() const override { return fd_.get(); }
  // A system call costs more than the second-level cache saves below this.
  size_t turn_bytes() const override { return 256 * 1024; }
  size_t inline_bytes(const std::byte*, size_t) const override { return 16 * 1024; }
  const char* name() const override { return "tcp"; }
  Seals* header_seals() override { return &header_seals_; }

 private:
  size_t receive(std::byte* data, size_t size);
  // Returns 0, while the peer's host answers.
  size_t nothing_moved();
  [[noreturn]] void lost(const std::string& why) const;

  UniqueFd fd_;
  HostSilence silence_;
  std::string who_;
  Seals header_seals_;
  std::vector<std::byte> staged_;  // received, not yet consumed: [begin_, end_)
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace ccore
