// Who may connect: mutual proof of the communicator's secret, which itself never travels.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "common/sha256.h"
#include "common/unique_fd.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/socket.h"

namespace ccore {

enum class Purpose : uint32_t { rendezvous = 1, control = 2, data = 3 };

// What a connecting rank says of itself; authenticated with the secret.
struct Hello {
  Purpose purpose = Purpose::rendezvous;
  int32_t from = 0;
  int32_t to = 0;
  int32_t nranks = 0;
  int32_t stream = 0;  // of a data connection: its number among those of the two ranks
  int64_t timeout_ms = 0;  // how long it will wait from now on
};

// The other side closed the connection before it said anything: it has taken no notice of this one. CC_ERROR_REMOTE.
class Unnoticed : public Error {
 public:
  explicit Unnoticed(const std::string& text) : Error(CC_ERROR_REMOTE, text) {}
};

// The connecting side. Throws CC_ERROR_REMOTE when the other side closes, cannot prove the secret, or speaks another
// version of the wire format.
Session introduce(int fd, const Digest& secret, const Hello& hello, const Deadline& deadline,
                  const std::string& who, const Alarm* alarm = nullptr);

struct Accepted {
  Connection connection;
  Hello hello;
};

// The listening side: takes connections from anybody, keeps those that prove the secret and drops the rest;
// a slow or hostile client delays nobody.
class Acceptor {
 public:
  Acceptor(std::vector<UniqueFd> listeners, const Digest& secret);
  Acceptor(Acceptor&&) noexcept;
  ~Acceptor();
  // The next rank; nothing when the deadline has passed, or there is something to be read from one of the others. Throws
  // CC_ERROR_SYSTEM when this process can open no more connections.
  std::optional<Accepted> next(const Deadline& deadline, const std::vector<int>& others = {});
  // Who was dropped for speaking another version of the wire format, as words that continue a sentence about who is
  // missing; empty if nobody was. What strangers say of themselves: a hint, no fact.
  const std::string& other_version() const { return other_version_; }

 private:
  struct Pending;
  void accept_new();
  void accept_new(int listener);
  void be_out_of_descriptors(int error);
  // True when the hello is complete and genuine; throws Error when the client is to be dropped.
  bool advance(Pending* pending);

  std::vector<UniqueFd> listeners_;
  Digest secret_;
  std::list<Pending> pending_;
  bool crowded_ = false;  // no more connections can be taken now
  std::optional<Deadline> exhausted_;  // when that is the end, as nobody will make room
  std::string other_version_;
};

}  // namespace ccore
