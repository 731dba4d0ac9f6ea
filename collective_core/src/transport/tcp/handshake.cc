#include "transport/tcp/handshake.h"

#include <poll.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/log.h"

namespace ccore {
namespace {

// "CCR" and the version of the wire format, which is all that the two sides know of each other when they read it.
constexpr uint32_t kProtocol = 0x00524343;
constexpr uint32_t kWireVersion = '2';  // 1: no frame was authenticated
constexpr uint32_t kMagic = kProtocol | kWireVersion << 24;
const char* const kApplicant = "a client";

constexpr size_t kSignedBytes = sizeof(HelloAnswer) - sizeof(Digest);

HelloChallenge new_challenge() {
  HelloChallenge challenge{kMagic, 0, {}};
  random_bytes(challenge.nonce.data(), challenge.nonce.size());
  return challenge;
}

// Of the secret and all that was said: both random numbers and the hello. What it is for goes first, so that none of
// them can stand for another.
Digest digest_for(const char* purpose, const Digest& secret, const HelloChallenge& challenge,
                  const HelloAnswer& answer) {
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
  return format(
      "speaks version %c of the wire format and this process version %c: all ranks need the same "
      "collective_core",
      version, static_cast<char>(kWireVersion));
}

}  // namespace

Introduction::Introduction(int fd, const Digest& secret, const Hello& hello, std::string who)
    : fd_(fd), secret_(secret), who_(std::move(who)), challenge_{}, answer_{}, proof_{} {
  answer_.magic = kMagic;
  answer_.purpose = static_cast<uint32_t>(hello.purpose);
  answer_.from = hello.from;
  answer_.to = hello.to;
  answer_.nranks = hello.nranks;
  answer_.stream = hello.stream;
  answer_.timeout_ms = hello.timeout_ms;
  random_bytes(answer_.nonce.data(), answer_.nonce.size());
}

std::optional<Session> Introduction::advance() {
  if (!answered_) {
    try {
      if (!receive(&challenge_, sizeof challenge_)) return std::nullopt;
    } catch (const Error& error) {
      if (error.code() == CC_ERROR_REMOTE) throw Unnoticed(error.what());
      throw;
    }
    answer();
  }
  try {
    if (!receive(proof_.data(), proof_.size())) return std::nullopt;
  } catch (const ConnectionReset& error) {
    throw Unnoticed(error.what());  // a refusal of the proof closes in order
  }
  if (!equal_digests(proof_, server_proof(secret_, challenge_, answer_))) {
    throw Error(CC_ERROR_REMOTE, who_ + " does not know the secret of this communicator");
  }
  return session_of(secret_, challenge_, answer_, true);
}

bool Introduction::receive(void* data, size_t size) {
  while (received_ < size) {
    const size_t got = recv_now(fd_, static_cast<char*>(data) + received_, size - received_, awaited());
    if (got == 0) return false;
    received_ += got;
  }
  return true;
}

void Introduction::answer() {
  if (challenge_.magic != kMagic) {
    const std::string version = as_other_version(challenge_.magic);
    if (version.empty()) throw Error(CC_ERROR_REMOTE, who_ + " is not a collective_core process");
    // So that it can say why this rank is missing; if that fails, it cannot.
    if (send(fd_, &kMagic, sizeof kMagic, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) log(LogLevel::info, "it is gone already");
    throw Error(CC_ERROR_REMOTE, who_ + " " + version);
  }
  answer_.proof = client_proof(secret_, challenge_, answer_);
  try {
    send_all(fd_, &answer_, sizeof answer_, Deadline::in_ms(0), who_);
  } catch (const ConnectionReset& error) {
    throw Unnoticed(error.what());
  }
  answered_ = true;
  received_ = 0;
}

Session introduce(int fd, const Digest& secret, const Hello& hello, const Deadline& deadline, const std::string& who,
                  const Alarm* alarm) {
  Introduction introduction(fd, secret, hello, who);
  while (true) {
    if (const auto session = introduction.advance()) return *session;
    if (deadline.passed()) throw Error(CC_ERROR_TIMEOUT, "no answer from " + introduction.awaited());
    wait_for(fd, POLLIN, deadline.remaining_ms(1000), alarm);
  }
}

Applicant::Applicant(UniqueFd fd) : fd_(std::move(fd)), challenge_(new_challenge()), answer_{} {
  send_all(fd_.get(), &challenge_, sizeof challenge_, Deadline::in_ms(0), kApplicant);
}

Applicant::~Applicant() {
  if (fd_) reset_on_close(fd_.get());
}

std::optional<Accepted> Applicant::advance(const Digest& secret) {
  try {
    receive();
    if (received_ < sizeof answer_) return std::nullopt;
    if (!equal_digests(answer_.proof, client_proof(secret, challenge_, answer_))) {
      throw Error(CC_ERROR_REMOTE, "it does not know the secret");
    }
    configure_connection(fd_.get());
    const Digest proof = server_proof(secret, challenge_, answer_);
    send_all(fd_.get(), proof.data(), proof.size(), Deadline::in_ms(0), kApplicant);
  } catch (const Error&) {
    fd_.reset();
    throw;
  }
  return Accepted{Connection{std::move(fd_), session_of(secret, challenge_, answer_, false)},
                  Hello{static_cast<Purpose>(answer_.purpose), answer_.from, answer_.to, answer_.nranks, answer_.stream,
                        answer_.timeout_ms}};
}

void Applicant::receive() {
  auto* bytes = reinterpret_cast<unsigned char*>(&answer_);
  while (received_ < sizeof answer_) {
    const ssize_t got = recv(fd_.get(), bytes + received_, sizeof answer_ - received_, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) throw Error(CC_ERROR_REMOTE, "it closed the connection");
    received_ += static_cast<size_t>(got);
    if (received_ < sizeof answer_.magic || answer_.magic == kMagic) continue;
    const std::string version = as_other_version(answer_.magic);
    if (version.empty()) throw Error(CC_ERROR_REMOTE, "it does not speak this protocol");
    throw OtherVersion("a process on " + host_text(peer_address(fd_.get())) + " " + version);
  }
}

}  // namespace ccore
