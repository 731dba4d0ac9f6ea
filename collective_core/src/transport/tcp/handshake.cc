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

// "CCR" and the version of the wire format, which is all that the two sides know of each other when they read it.
constexpr uint32_t kProtocol = 0x00524343;
constexpr uint32_t kWireVersion = '2';  // 1: no frame was authenticated
constexpr uint32_t kMagic = kProtocol | kWireVersion << 24;
constexpr int64_t kPatienceMs = 10000;   // for a client that connects and then says nothing
constexpr size_t kMostPending = 1024;
constexpr int64_t kExhaustedMs = 1000;   // for other threads to close what they have open for a moment

}  // namespace

// Not of this file alone: Acceptor::Pending has them.
struct HelloChallenge {
  uint32_t magic = kMagic;
  uint32_t zero = 0;
  std::array<unsigned char, 32> nonce{};
};

struct HelloAnswer {
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

namespace {

constexpr size_t kSignedBytes = sizeof(HelloAnswer) - sizeof(Digest);

// Of the secret and all that was said: both random numbers and the hello. What it is for goes first, so that none of
// them can stand for another.
Digest digest_for(const char* purpose, const Digest& secret, const HelloChallenge& challenge, const HelloAnswer& answer) {
  std::string message(purpose);
  message.append(reinterpret_cast<const char*>(&challenge), sizeof challenge);
  message.append(reinterpret_cast<const char*>(&answer), kSignedBytes);
  return hmac_sha256(secret, message.data(), message.size());
}

Digest client_proof(const Digest& secret, const HelloChallenge& challenge, const HelloAnswer& answer) {
  return digest_for("client", secret, challenge, answer);
}

Digest server_proof(const Digest& secret, const HelloChallenge& challenge, const HelloAnswer& answer) {
  return digest_for("server", secret, challenge, answer);
}

Session session_of(const Digest& secret, const HelloChallenge& challenge, const HelloAnswer& answer, bool connected) {
  return Session{digest_for("session", secret, challenge, answer), connected};
}

// Empty unless it is a collective_core process, of another version.
std::string as_other_version(uint32_t magic) {
  const auto version = static_cast<char>(magic >> 24);
  if ((magic & 0xffffff) != kProtocol || magic == kMagic || version < '0' || version > 'z') return std::string();
  return format("speaks version %c of the wire format and this process version %c: all ranks need the same "
                "collective_core",
                version, static_cast<char>(kWireVersion));
}

}  // namespace

Session introduce(int fd, const Digest& secret, const Hello& hello, const Deadline& deadline,
                  const std::string& who, const Alarm* alarm) {
  HelloChallenge challenge;
  try {
    recv_all(fd, &challenge, sizeof challenge, deadline, who, alarm);
  } catch (const Error& error) {
    if (error.code() == CC_ERROR_REMOTE) throw Unnoticed(error.what());
    throw;
  }
  if (challenge.magic != kMagic) {
    const std::string version = as_other_version(challenge.magic);
    if (version.empty()) throw Error(CC_ERROR_REMOTE, who + " is no collective_core process");
    // So that it can say why this rank is missing; if that fails, it cannot.
    if (send(fd, &kMagic, sizeof kMagic, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) log(LogLevel::info, "it is gone already");
    throw Error(CC_ERROR_REMOTE, who + " " + version);
  }
  HelloAnswer answer;
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
  return session_of(secret, challenge, answer, true);
}

struct Acceptor::Pending {
  UniqueFd fd;
  HelloChallenge challenge;
  HelloAnswer answer;
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
      if (errno == EMFILE || errno == ENFILE) be_out_of_descriptors(errno);
      return;
    }
    exhausted_.reset();
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

void Acceptor::be_out_of_descriptors(int error) {
  crowded_ = true;
  // Those of strangers come back when they are dropped; nobody but this process has the others.
  if (!pending_.empty()) return exhausted_.reset();
  if (!exhausted_) exhausted_ = Deadline::in_ms(kExhaustedMs);
  if (!exhausted_->passed()) return;
  throw Error(CC_ERROR_SYSTEM, "accept: " + errno_text(error) +
                                   " in the process that other ranks connect to (its limit is that of ulimit -n)");
}

bool Acceptor::advance(Pending* pending) {
  auto* bytes = reinterpret_cast<unsigned char*>(&pending->answer);
  while (pending->received < sizeof(HelloAnswer)) {
    const ssize_t got =
        recv(pending->fd.get(), bytes + pending->received, sizeof(HelloAnswer) - pending->received, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (pending->patience.passed()) throw Error(CC_ERROR_TIMEOUT, "it said nothing");
      return false;
    }
    if (got <= 0) throw Error(CC_ERROR_REMOTE, "it closed the connection");
    pending->received += static_cast<size_t>(got);
    if (pending->received >= sizeof(uint32_t) && pending->answer.magic != kMagic) {
      const std::string version = as_other_version(pending->answer.magic);
      if (version.empty()) throw Error(CC_ERROR_REMOTE, "it does not speak this protocol");
      const Address from = peer_address(pending->fd.get());
      if (other_version_.empty()) log(LogLevel::warn, "a process on %s %s", host_text(from).c_str(), version.c_str());
      other_version_ = "; a process on " + host_text(from) + " " + version;
      throw Error(CC_ERROR_REMOTE, "it " + version);
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
        const HelloAnswer& answer = at->answer;
        Accepted accepted{Connection{std::move(at->fd), session_of(secret_, at->challenge, answer, false)},
                          Hello{static_cast<Purpose>(answer.purpose), answer.from, answer.to, answer.nranks,
                                answer.stream, answer.timeout_ms}};
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
