#include "engine/monitor.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <utility>

#include "common/clock.h"
#include "common/event.h"
#include "common/log.h"
#include "common/own_thread.h"

namespace ccore {
namespace {

constexpr uint64_t kPresent = ~uint64_t{0};

}  // namespace

enum class Monitor::FrameType : uint32_t { goodbye = 1, error = 2, question = 16, answer = 17 };

// Small enough that it always fits the socket's buffer, so that sending never has to wait.
struct Monitor::Frame {
  FrameType type = FrameType::goodbye;
  uint32_t code = 0;  // of an error; of a question and its answer: their number
  uint64_t finished =
      0;  // of a question: the operation that is meant; of an answer: the one that the rank is in, or was
  char text[1000] = {};   // of an answer: what the rank called as the operation that is meant, if it knows
  uint64_t tag = 0;       // of all that stands before it
};

struct Monitor::Peer {
  Peer(Connection connection, const std::string& name)
      : fd(std::move(connection.fd)), seals(make_seals(connection.session, "control", name)), open(fd) {}

  UniqueFd fd;
  Seals seals;  // out: under send_mutex_
  bool open;
  std::atomic<uint32_t> answered{0};  // the last question it has answered
  std::atomic<uint64_t> begun{0};     // what it said then
  Notice called;                      // the last operation that it told of
  std::atomic<uint64_t> left_after{kPresent};  // operations it had finished when it said goodbye
  std::atomic<bool> gone{false};
  std::string unsent;  // the rest of a frame; under send_mutex_
  size_t received = 0;
  Frame frame;
};

Monitor::Monitor(std::vector<Connection> control, std::vector<std::string> names, Failure* failure, Doorbell* doorbell)
    : names_(std::move(names)), failure_(failure), doorbell_(doorbell), wake_fd_(make_event()), stop_fd_(make_event()) {
  for (Connection& connection : control) {
    peers_.push_back(std::make_unique<Peer>(std::move(connection), names_[peers_.size()]));
  }
  std::vector<int> fds;
  for (const auto& peer : peers_) {
    if (peer->fd) fds.push_back(peer->fd.get());
  }
  control_fds_.emplace(stop_fd_.get(), std::move(fds));
  thread_ = own_thread([this] { watch(); });
}

void Monitor::say_goodbye(uint64_t operations) {
  said_goodbye_ = true;
  Frame frame;
  frame.finished = operations;
  send_to_all(frame);
}

Monitor::~Monitor() {
  if (!said_goodbye_) say_goodbye(finished_.load(std::memory_order_relaxed));
  signal_event(stop_fd_.get());
  thread_.join();
  for (const auto& peer : peers_) {
    if (!peer->fd) continue;
    // Unread bytes at close would turn our goodbye into a connection reset.
    shutdown(peer->fd.get(), SHUT_WR);
    char rest[4096];
    while (recv(peer->fd.get(), rest, sizeof rest, MSG_DONTWAIT) > 0) {
    }
  }
}

void Monitor::fail(cc_result code, const std::string& text) {
  if (!failure_->set(code, text)) return;
  log(LogLevel::warn, "%s: %s", cc_error_string(code), text.c_str());
  Frame frame;
  frame.type = FrameType::error;
  frame.code = static_cast<uint32_t>(code);
  std::strncpy(frame.text, text.c_str(), sizeof frame.text - 1);
  send_to_all(frame);
  wake();
}

void Monitor::wake() {
  signal_event(wake_fd_.get());
  ring_always(doorbell_);
}

void Monitor::send_to_all(const Frame& frame) {
  for (const auto& peer : peers_) send_to(peer.get(), frame);
}

void Monitor::send_to(Peer* peer, Frame frame) {
  if (!peer->fd) return;
  const std::lock_guard<std::mutex> lock(send_mutex_);
  const auto put = [peer](const char* data, size_t size) {
    const ssize_t sent = send(peer->fd.get(), data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent > 0 ? static_cast<size_t>(sent) : 0;
  };
  // To a rank that has read nothing for long.
  if (!peer->unsent.empty()) peer->unsent.erase(0, put(peer->unsent.data(), peer->unsent.size()));
  size_t sent = 0;
  if (peer->unsent.empty()) {
    frame.tag = peer->seals.out.tag(&frame, offsetof(Frame, tag));
    const auto* bytes = reinterpret_cast<const char*>(&frame);
    sent = put(bytes, sizeof frame);
    if (sent > 0) {
      peer->seals.out.advance();
      peer->unsent.assign(bytes + sent, sizeof frame - sent);
    }
  }
  if (sent == 0) log(LogLevel::info, "a control message could not be sent");
}

bool Monitor::silent(size_t rank) const {
  const Peer& peer = *peers_[rank];
  return peer.fd && peer.left_after.load(std::memory_order_acquire) == kPresent &&
         peer.answered.load(std::memory_order_acquire) != asked_;
}

void Monitor::set_call(const Operation& operation) {
  calls_[operation.sequence % calls_.size()].write(operation.sequence, reinterpret_cast<const std::byte*>(&operation));
}

void Monitor::ask(uint64_t operation) {
  Frame question;
  question.type = FrameType::question;
  question.code = ++asked_;
  question.finished = operation;
  send_to_all(question);
}

bool Monitor::answered(int rank, uint64_t operation, Operation* called) const {
  return peers_[static_cast<size_t>(rank)]->called.read(operation, reinterpret_cast<std::byte*>(called));
}

void Monitor::answer(size_t rank, const Frame& question) {
  Frame answer;
  answer.type = FrameType::answer;
  answer.code = question.code;
  answer.finished = begun_.load(std::memory_order_relaxed);
  Operation called;
  const uint64_t number = question.finished;
  if (number > 0 && calls_[number % calls_.size()].read(number, reinterpret_cast<std::byte*>(&called))) {
    std::memcpy(answer.text, &called, sizeof called);
  }
  send_to(peers_[rank].get(), answer);
}

std::string Monitor::who_is_missing(uint64_t operation, uint64_t asked) {
  ask(asked);
  const auto any_silent = [&] {
    for (size_t rank = 0; rank < peers_.size(); ++rank) {
      if (silent(rank)) return true;
    }
    return false;
  };
  const Deadline patience = Deadline::in_ms(kAnswerMs);
  // Another rank's failure ends the question: it is the first.
  while (any_silent() && !patience.passed() && failure_->code() == CC_SUCCESS) {
    const timespec moment{0, 1000000};
    nanosleep(&moment, nullptr);
  }
  std::string text;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = *peers_[rank];
    if (!peer.fd) continue;
    const uint64_t begun = peer.begun.load(std::memory_order_relaxed);
    if (silent(rank)) {
      text += "; " + names_[rank] + " gives no answer: it is stopped or cut off";
    } else if (begun < operation) {
      text += "; " + names_[rank] +
              format(" has not called it: its last operation was %llu", static_cast<unsigned long long>(begun));
    }
  }
  return text;
}

void Monitor::check_departures(uint64_t operation) const {
  if (!anyone_left_.load(std::memory_order_acquire)) return;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const uint64_t finished = peers_[rank]->left_after.load(std::memory_order_acquire);
    if (finished != kPresent && finished < operation) {
      throw Error(CC_ERROR_REMOTE,
                  format("%s destroyed its communicator after operation %llu; this rank is in operation %llu",
                         names_[rank].c_str(), static_cast<unsigned long long>(finished),
                         static_cast<unsigned long long>(operation)));
    }
  }
}

bool Monitor::has_left(int rank) const {
  if (!anyone_left_.load(std::memory_order_acquire)) return false;
  return peers_[static_cast<size_t>(rank)]->left_after.load(std::memory_order_acquire) != kPresent;
}

bool Monitor::is_gone(int rank) const {
  return peers_[static_cast<size_t>(rank)]->gone.load(std::memory_order_acquire);
}

void Monitor::watch() {
  while (true) {
    std::vector<pollfd> fds;
    std::vector<size_t> ranks;
    fds.push_back(pollfd{stop_fd_.get(), POLLIN, 0});
    for (size_t rank = 0; rank < peers_.size(); ++rank) {
      if (!peers_[rank]->open) continue;
      fds.push_back(pollfd{peers_[rank]->fd.get(), POLLIN, 0});
      ranks.push_back(rank);
    }
    if (poll(fds.data(), fds.size(), -1) < 0) continue;  // EINTR
    // Before the stop is obeyed, what has arrived is read: a communicator that is destroyed keeps its
    // verdict.
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (fds[i + 1].revents != 0) read_frames(ranks[i]);
    }
    if (fds[0].revents != 0) return;
  }
}

void Monitor::read_frames(size_t rank) {
  Peer& peer = *peers_[rank];
  while (peer.open) {
    auto* bytes = reinterpret_cast<char*>(&peer.frame);
    const ssize_t got = recv(peer.fd.get(), bytes + peer.received, sizeof(Frame) - peer.received, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      const std::string why = got < 0 ? errno_text(errno) : "connection closed";
      peer.open = false;
      if (peer.left_after.load(std::memory_order_relaxed) == kPresent) {
        peer.gone.store(true, std::memory_order_release);
        give_up_on(names_[rank] + " died or cannot be reached (" + why + ")");
      }
      return;
    }
    peer.received += static_cast<size_t>(got);
    if (peer.received < sizeof(Frame)) continue;
    peer.received = 0;
    try {
      peer.seals.check(&peer.frame, offsetof(Frame, tag), peer.frame.tag, "control message");
    } catch (const NotAuthentic& error) {
      peer.open = false;
      give_up_on(error.what());
      return;
    }
    peer.seals.in.advance();
    handle(rank, peer.frame);
  }
}

void Monitor::give_up_on(const std::string& why) {
  const auto begun = static_cast<unsigned long long>(begun_.load(std::memory_order_relaxed));
  fail(CC_ERROR_REMOTE, why + (begun > 0 ? format("; noticed in or after operation %llu", begun) : ""));
}

void Monitor::handle(size_t rank, const Frame& frame) {
  if (frame.type == FrameType::goodbye) {
    peers_[rank]->left_after.store(frame.finished, std::memory_order_release);
    anyone_left_.store(true, std::memory_order_release);
    ring_always(doorbell_);
    return;
  }
  if (frame.type == FrameType::question) return answer(rank, frame);
  if (frame.type == FrameType::answer) {
    Operation called;
    std::memcpy(&called, frame.text, sizeof called);
    if (called.sequence > 0) {
      peers_[rank]->called.write(called.sequence, reinterpret_cast<const std::byte*>(&called));
    }
    peers_[rank]->begun.store(frame.finished, std::memory_order_relaxed);
    peers_[rank]->answered.store(frame.code, std::memory_order_release);
    return;
  }
  const std::string text(frame.text, strnlen(frame.text, sizeof frame.text));
  const auto code = static_cast<cc_result>(frame.code);
  // A desync and a death are the same news on every rank; other errors happened there, not here.
  if (code == CC_ERROR_DESYNC || code == CC_ERROR_REMOTE) {
    fail(code, text);
  } else {
    fail(CC_ERROR_REMOTE, names_[rank] + " failed (" + cc_error_string(code) + "): " + text);
  }
}

}  // namespace ccore
