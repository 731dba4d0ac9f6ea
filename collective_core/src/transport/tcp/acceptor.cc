#include "transport/tcp/acceptor.h"

#include <cerrno>
#include <utility>

#include "common/error.h"
#include "common/log.h"

namespace ccore {
namespace {

constexpr int64_t kMostAgeNs = int64_t{10000} * 1000000;  // of a connection without a proof
constexpr int kBatch = 64;  // connections that are accepted before those that wait are read again
constexpr int kMostWaitMs = 500;
constexpr int kCrowdedMs = 50;  // until the next attempt to accept without a free descriptor
constexpr int64_t kExhaustedMs = 1000;  // for other threads to close files that they have open for a moment

void log_dropped(const char* why) { log(LogLevel::info, "dropped a connection: %s", why); }

}  // namespace

Acceptor::Acceptor(std::vector<UniqueFd> listeners, const Digest& secret, size_t most)
    : listeners_(std::move(listeners)), secret_(secret), crowd_(most) {}

std::optional<Accepted> Acceptor::next(const Deadline& deadline, const std::vector<int>& others) {
  while (proven_.empty()) {
    const bool last = deadline.passed();
    std::vector<pollfd> fds;
    for (const int fd : others) fds.push_back(pollfd{fd, POLLIN, 0});
    // A listener that has to wait must not wake this thread again and again.
    for (const UniqueFd& listener : listeners_) fds.push_back(pollfd{crowded_ ? -1 : listener.get(), POLLIN, 0});
    const size_t first = fds.size();
    for (const Crowd::Member& one : crowd_) fds.push_back(pollfd{one.applicant.fd(), POLLIN, 0});
    poll(fds.data(), fds.size(), wait_ms(deadline));
    // A connection that has sent its proof must not be the one that makes room.
    hear(fds, first);
    drop_expired();
    crowded_ = false;
    for (const UniqueFd& listener : listeners_) accept_new(listener.get());
    if (!proven_.empty()) break;
    for (size_t i = 0; i < others.size(); ++i) {
      if (fds[i].revents != 0) return std::nullopt;
    }
    if (last) return std::nullopt;
  }
  Accepted accepted = std::move(proven_.front());
  proven_.pop_front();
  return accepted;
}

void Acceptor::limit(size_t most) {
  crowd_.limit(most);
  while (crowd_.too_large() && make_room()) continue;
}

int Acceptor::wait_ms(const Deadline& deadline) {
  int most = kMostWaitMs;
  if (crowded_) most = kCrowdedMs;
  if (crowded_ && crowd_.size() > 0) most = Deadline::in_ms(0, crowd_.next_victim_ns()).remaining_ms(kCrowdedMs);
  return deadline.remaining_ms(most);
}

void Acceptor::hear(const std::vector<pollfd>& fds, size_t first) {
  size_t at = first;
  for (auto place = crowd_.begin(); place != crowd_.end(); ++at) {
    if (fds[at].revents == 0) {
      ++place;
    } else {
      hear_one(&place);
    }
  }
}

bool Acceptor::hear_one(Crowd::Place* place) {
  try {
    auto accepted = (*place)->applicant.advance(secret_);
    if (!accepted) {
      ++*place;
      return false;
    }
    proven_.push_back(std::move(*accepted));
  } catch (const OtherVersion& error) {
    if (other_version_.empty()) log(LogLevel::warn, "%s", error.what());
    other_version_ = std::string("; ") + error.what();
  } catch (const Error& error) {
    log_dropped(error.what());
  }
  *place = crowd_.erase(*place);
  return true;
}

void Acceptor::drop_expired() {
  const int64_t now = now_ns();
  while (crowd_.size() > 0 && now - crowd_.begin()->since_ns >= kMostAgeNs) {
    crowd_.erase(crowd_.begin());
    log_dropped("it said nothing");
  }
}

bool Acceptor::make_room() {
  const auto victim = crowd_.victim(now_ns());
  if (!victim) return false;
  Crowd::Place heard = *victim;
  // A proof that has arrived by now counts.
  if (hear_one(&heard)) return true;
  crowd_.erase(*victim);
  log_dropped("another connection takes its place");
  return true;
}

void Acceptor::accept_new(int listener) {
  for (int i = 0; i < kBatch; ++i) {
    if (crowd_.full() && !crowd_.victim(now_ns())) {
      crowded_ = true;
      return;
    }
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    auto* peer = reinterpret_cast<sockaddr*>(&from);
    UniqueFd fd(accept4(listener, peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EAGAIN) return;
      const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (!exhausted) continue;  // the connection has failed already, or a signal has come
      be_out_of_descriptors(errno);
      if (crowded_) return;
      continue;
    }
    exhausted_.reset();
    if (crowd_.full()) make_room();
    try {
      crowd_.add(Applicant(std::move(fd)), address_from(peer), now_ns());
    } catch (const Error& error) {
      log_dropped(error.what());
    }
  }
}

void Acceptor::be_out_of_descriptors(int error) {
  if (make_room()) return;
  crowded_ = true;
  // Descriptors of strangers come back when these make room; all others belong to this process.
  if (crowd_.size() > 0) return exhausted_.reset();
  if (!exhausted_) exhausted_ = Deadline::in_ms(kExhaustedMs);
  if (!exhausted_->passed()) return;
  throw Error(CC_ERROR_SYSTEM, "accept: " + errno_text(error) +
                                   " in the process that other ranks connect to (its limit is that of ulimit -n)");
}

}  // namespace ccore
