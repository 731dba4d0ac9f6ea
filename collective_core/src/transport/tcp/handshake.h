// Who may connect: mutual proof of the communicator's secret, which itself never travels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/error.h"
#include "common/sha256.h"
#include "common/unique_fd.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/socket.h"

namespace ccore {

enum class Purpose : uint32_t { rendezvous = 1, control = 2, data = 3, nccl = 4 };

// What a connecting rank says of itself; authenticated with the secret.
struct Hello {
  Purpose purpose = Purpose::rendezvous;
  int32_t from = 0;
  int32_t to = 0;
  int32_t nranks = 0;
  int32_t stream = 0;  // of a data connection: its number among those of the two ranks
  int64_t timeout_ms = 0;  // how long it will wait from now on
};

// The other side dropped the connection before it judged the proof: another attempt may succeed. CC_ERROR_REMOTE.
class Unnoticed : public Error {
 public:
  explicit Unnoticed(const std::string& text) : Error(CC_ERROR_REMOTE, text) {}
};

struct Accepted {
  Connection connection;
  Hello hello;
};

// What travels.
struct HelloChallenge {
  uint32_t magic;
  uint32_t zero;
  std::array<unsigned char, 32> nonce;
};

struct HelloAnswer {
  uint32_t magic;
  uint32_t purpose;
  int32_t from;
  int32_t to;
  int32_t nranks;
  int32_t stream;
  int64_t timeout_ms;
  std::array<unsigned char, 32> nonce;
  Digest proof;
};

// The connecting side of one handshake. It never waits.
class Introduction {
 public:
  Introduction(int fd, const Digest& secret, const Hello& hello, std::string who);

  // Reads what has arrived and answers it. Nothing until both sides have proven the secret. Throws Unnoticed; and
  // CC_ERROR_REMOTE when the other side refuses this one, cannot prove the secret, or speaks another version of the
  // wire format.
  std::optional<Session> advance();
  // The other side has accepted the connection.
  bool noticed() const { return answered_; }
  // Who has to send next, for an error.
  std::string awaited() const { return answered_ ? who_ + " (wrong job secret?)" : who_; }

 private:
  // False while it is incomplete.
  bool receive(void* data, size_t size);
  void answer();

  int fd_;
  Digest secret_;
  std::string who_;
  bool answered_ = false;
  size_t received_ = 0;  // of the challenge, then of the proof
  HelloChallenge challenge_;
  HelloAnswer answer_;
  Digest proof_;
};

// An Introduction up to its end. Throws CC_ERROR_TIMEOUT too, and what the alarm throws.
Session introduce(int fd, const Digest& secret, const Hello& hello, const Deadline& deadline, const std::string& who,
                  const Alarm* alarm = nullptr);

// The listening side of one handshake, over a connection that has yet to prove itself. It never waits.
class Applicant {
 public:
  // Sends the challenge; throws Error when the connection takes none.
  explicit Applicant(UniqueFd fd);
  Applicant(Applicant&&) noexcept = default;
  // A connection that was not judged ends by a reset, and the other side may try again; a refused one ends in order.
  ~Applicant();

  int fd() const { return fd_.get(); }
  // Reads what has arrived. Returns the connection and its hello once the hello is complete and genuine, and nothing
  // while it is incomplete. Throws OtherVersion, or another Error when the connection has to be dropped.
  std::optional<Accepted> advance(const Digest& secret);

 private:
  void receive();

  UniqueFd fd_;
  HelloChallenge challenge_;
  HelloAnswer answer_;
  size_t received_ = 0;
};

// The other side is a collective_core process of another version. The text names its host and both versions.
class OtherVersion : public Error {
 public:
  explicit OtherVersion(const std::string& text) : Error(CC_ERROR_REMOTE, text) {}
};

}  // namespace ccore
