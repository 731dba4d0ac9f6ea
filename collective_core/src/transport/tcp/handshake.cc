#include "transport/tcp/handshake.h"

#include <poll.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/log.h"

namespace ccore {
namespace {

constexpr uint32_t kMagic = 0x31524343;  // "CCR1": also the version of the wire format
constexpr int64_t kPatienceMs = 10000;   // for a client that connects and then says nothing
constexpr size_t kMostPending = 1024;

struct Challenge {
  uint32_t magic = kMagic;
  uint32_t zero = 0;
  std::array<unsigned char, 32> nonce{};
};

struct Answer {
  uint32_t magic = kMagic;
  uint32_t purpose = 0;
  int32_t from = 0;
  int32_t to = 0;
  int32_t nranks = 0;
  int32_t stream = 0;
  int64_t timeout_ms = 0;
  std::array<unsigned char, 32> nonce{};
  Digest proof{};
};

constexpr size_t kSignedBytes = sizeof(Answer) - sizeof(Digest);

Digest client_proof(const Digest& secret, const Challenge& challenge, const Answer& answer) {
  std::vector<unsigned char> message(6 + sizeof challenge.nonce + kSignedBytes);
  std::memcpy(message.data(), "client", 6);
  std::memcpy(message.data() + 6, challenge.nonce.data(), challenge.nonce.size());
  std::memcpy(message.data() + 6 + challenge.nonce.size(), &answer, kSignedBytes);
  return hmac_sha256(secret, message.data(), message.size());
}

Digest server_proof(const Digest& secret, const Challenge& challenge, const Answer& answer) {
  std::vector<unsigned char> message(6 + challenge.nonce.size() + answer.nonce.size());
  std::memcpy(message.data(), "server", 6);
  std::memcpy(message.data() + 6, challenge.nonce.data(), challenge.nonce.size());
  std::memcpy(message.data() + 6 + challenge.nonce.size(), answer.nonce.data(), answer.nonce.size());
  return hmac_sha256(secret, message.data(), message.size());
}

}  // namespace

void introduce(int fd, const Digest& secret, const Hello& hello, const Deadline& deadline,
               const std::string& who, const Alarm* alarm) {
  Challenge challenge;
  recv_all(fd, &challenge, sizeof challenge, deadline, who, alarm);
  if (challenge.magic != kMagic) {
    throw Error(CC_ERROR_REMOTE, who + " is not a collective_core process of this version");
  }
  Answer answer;
  answer.purpose = static_cast<uint32_t>(hello.purpose);
  answer.from = hello.from;
  answer.to = hello.to;
  answer.nranks = hello.nranks;
  answer.stream = hello.stream;
  answer.timeout_ms = hello.timeout_ms;
  random_bytes(answer.nonce.data(), answer.nonce.size());
  answer.proof = client_proof(secret, challenge, answer);
  send_all(fd, &answer, sizeof answer, deadline, who);
  Digest proof{};
  recv_all(fd, proof.data(), proof.size(), deadline, who + " (wrong job secret?)", alarm);
  if (!equal_digests(proof, server_proof(secret, challenge, answer))) {
    throw Error(CC_ERROR_REMOTE, who + " does not know the secret of this communicator");
  }
}

struct Acceptor::Pending {
  UniqueFd fd;
  Challenge challenge;
  Answer answer;
  size_t received = 0;
  Deadline patience;
};

Acceptor::Acceptor(std::vector<UniqueFd> listeners, const Digest& secret)
    : listeners_(std::move(listeners)), secret_(secret) {}
Acceptor::Acceptor(Acceptor&&) noexcept = default;
Acceptor::~Acceptor() = default;

void Acceptor::accept_new() {
  crowded_ = false;
  for (const UniqueFd& listener : listeners_) accept_new(listener.get());
  crowded_ = crowded_ || pending_.size() >= kMostPending;
}

void Acceptor::accept_new(int listener) {
  while (pending_.size() < kMostPending) {
    UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE) crowded_ = true;
      return;
    }
    Pending pending{std::move(fd), {}, {}, 0, Deadline::in_ms(kPatienceMs)};
    random_bytes(pending.challenge.nonce.data(), pending.challenge.nonce.size());
    try {
      configure_connection(pending.fd.get());
      send_all(pending.fd.get(), &pending.challenge, sizeof pending.challenge, Deadline::in_ms(0),
               "a client");
    } catch (const Error& error) {
      log(LogLevel::info, "dropped a connection: %s", error.what());
      continue;
    }
    pending_.push_back(std::move(pending));
  }
}

bool Acceptor::advance(Pending* pending) {
  auto* bytes = reinterpret_cast<unsigned char*>(&pending->answer);
  while (pending->received < sizeof(Answer)) {
    const ssize_t got =
        recv(pending->fd.get(), bytes + pending->received, sizeof(Answer) - pending->received, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (pending->patience.passed()) throw Error(CC_ERROR_TIMEOUT, "it said nothing");
      return false;
    }
    if (got <= 0) throw Error(CC_ERROR_REMOTE, "it closed the connection");
    pending->received += static_cast<size_t>(got);
    if (pending->received >= sizeof(uint32_t) && pending->answer.magic != kMagic) {
      throw Error(CC_ERROR_REMOTE, "it does not speak this protocol");
    }
  }
  if (!equal_digests(pending->answer.proof, client_proof(secret_, pending->challenge, pending->answer))) {
    throw Error(CC_ERROR_REMOTE, "it does not know the secret");
  }
  const Digest proof = server_proof(secret_, pending->challenge, pending->answer);
  send_all(pending->fd.get(), proof.data(), proof.size(), Deadline::in_ms(0), "a client");
  return true;
}

std::optional<Accepted> Acceptor::next(const Deadline& deadline, const std::vector<int>& others) {
  while (true) {
    accept_new();
    for (auto at = pending_.begin(); at != pending_.end();) {
      try {
        if (!advance(&*at)) {
          ++at;
          continue;
        }
        const Answer& answer = at->answer;
        Accepted accepted{std::move(at->fd), Hello{static_cast<Purpose>(answer.purpose), answer.from,
                                                   answer.to, answer.nranks, answer.stream, answer.timeout_ms}};
        pending_.erase(at);
        return accepted;
      } catch (const Error& error) {
        log(LogLevel::info, "dropped a connection: %s", error.what());
        at = pending_.erase(at);
      }
    }
    if (deadline.passed()) return std::nullopt;
    std::vector<pollfd> fds;
    for (const int fd : others) fds.push_back(pollfd{fd, POLLIN, 0});
    // While no more can be taken, those who wait for it are no reason to wake up.
    for (const UniqueFd& listener : listeners_) {
      if (!crowded_) fds.push_back(pollfd{listener.get(), POLLIN, 0});
    }
    for (const Pending& pending : pending_) fds.push_back(pollfd{pending.fd.get(), POLLIN, 0});
    poll(fds.data(), fds.size(), deadline.remaining_ms(500));
    for (size_t i = 0; i < others.size(); ++i) {
      if (fds[i].revents != 0) return std::nullopt;
    }
  }
}

}  // namespace ccore
