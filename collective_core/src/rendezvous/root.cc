#include "rendezvous/root.h"

#include <poll.h>

#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "transport/tcp/handshake.h"

namespace ccore {
namespace {

constexpr int64_t kFirstRankMs = 3600 * 1000;  // an id that nobody ever uses does not keep a thread for ever
constexpr int kMostRanks = 65536;

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

class Root {
 public:
  explicit Root(Acceptor acceptor) : acceptor_(std::move(acceptor)) {}

  void serve() {
    try {
      gather_ranks();
      while (one_round()) {
      }
    } catch (const Error& error) {
      log(LogLevel::warn, "rendezvous failed: %s", error.what());
      tell_all(error);
    }
  }

 private:
  void gather_ranks() {
    Deadline deadline = Deadline::in_ms(kFirstRankMs);
    size_t present = 0;
    while (ranks_.empty() || present < ranks_.size()) {
      auto accepted = acceptor_.next(deadline);
      if (!accepted) throw Error(CC_ERROR_TIMEOUT, "still missing at the deadline: " + missing());
      const Hello& hello = accepted->hello;
      if (ranks_.empty()) {
        if (hello.nranks < 1 || hello.nranks > kMostRanks) continue;
        ranks_.resize(static_cast<size_t>(hello.nranks));
        timeout_ms_ = hello.timeout_ms;
        // A little less than the ranks' own patience, so that they hear from us who is missing.
        deadline = Deadline::in_ms(timeout_ms_ - std::min<int64_t>(timeout_ms_ / 10, 500));
      }
      late_ = std::move(accepted->fd);  // told too, if it is what fails
      if (hello.nranks != static_cast<int>(ranks_.size())) {
        throw Error(CC_ERROR_INVALID_ARGUMENT,
                    rank_text(hello.from) + " says there are " + std::to_string(hello.nranks) +
                        " ranks, the first to arrive said " + std::to_string(ranks_.size()));
      }
      if (hello.from < 0 || hello.from >= hello.nranks) {
        throw Error(CC_ERROR_INVALID_ARGUMENT, rank_text(hello.from) + " is out of range");
      }
      UniqueFd& slot = ranks_[static_cast<size_t>(hello.from)];
      if (slot) throw Error(CC_ERROR_INVALID_USAGE, "two processes say they are " + rank_text(hello.from));
      slot = std::move(late_);
      ++present;
    }
  }

  // False when all ranks have left, which ends a successful rendezvous.
  bool one_round() {
    const Deadline deadline = Deadline::in_ms(timeout_ms_);
    std::string table;
    size_t left = 0;
    std::string who_left;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::string who = rank_text(static_cast<int>(rank));
      RendezvousRequest request{};
      try {
        recv_all(ranks_[rank].get(), &request, sizeof request, deadline, who);
      } catch (const Error& error) {
        if (error.code() != CC_ERROR_REMOTE) throw;
        ++left;
        who_left = who;
        continue;
      }
      if (request.size > kMostRendezvousBytes) throw Error(CC_ERROR_INTERNAL, who + " sent too much");
      std::string bytes(request.size, '\0');
      recv_all(ranks_[rank].get(), bytes.data(), bytes.size(), deadline, who);
      if (request.status != CC_SUCCESS)
        throw Error(static_cast<cc_result>(request.status), who + ": " + bytes);
      table += bytes;
    }
    if (left == ranks_.size()) return false;
    if (left > 0) throw Error(CC_ERROR_REMOTE, who_left + " died or failed during initialisation");
    answer_all(CC_SUCCESS, table, deadline);
    return true;
  }

  void answer_all(cc_result status, const std::string& bytes, const Deadline& deadline) {
    const RendezvousReply reply{static_cast<uint32_t>(status), static_cast<uint32_t>(bytes.size())};
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::string who = rank_text(static_cast<int>(rank));
      send_all(ranks_[rank].get(), &reply, sizeof reply, deadline, who);
      send_all(ranks_[rank].get(), bytes.data(), bytes.size(), deadline, who);
    }
  }

  void tell_all(const Error& error) {
    if (late_) ranks_.push_back(std::move(late_));
    const std::string bytes = error.what();
    const RendezvousReply reply{static_cast<uint32_t>(error.code()), static_cast<uint32_t>(bytes.size())};
    for (const UniqueFd& fd : ranks_) {
      if (!fd) continue;
      try {
        const Deadline deadline = Deadline::in_ms(1000);
        send_all(fd.get(), &reply, sizeof reply, deadline, "a rank");
        send_all(fd.get(), bytes.data(), bytes.size(), deadline, "a rank");
        // Closing over unread bytes would reset the connection and could take the text with it.
        shutdown(fd.get(), SHUT_WR);
        char rest[512];
        while (recv(fd.get(), rest, sizeof rest, MSG_DONTWAIT) > 0) {
        }
      } catch (const Error& unreachable) {
        log(LogLevel::info, "%s", unreachable.what());
      }
    }
  }

  std::string missing() const {
    std::string list;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!ranks_[rank]) list += (list.empty() ? "rank " : ", ") + std::to_string(rank);
    }
    return list + " of " + std::to_string(ranks_.size());
  }

  Acceptor acceptor_;
  std::vector<UniqueFd> ranks_;
  UniqueFd late_;
  int64_t timeout_ms_ = 0;
};

}  // namespace

void start_root(UniqueFd listener, const Digest& secret) {
  std::vector<UniqueFd> listeners;
  listeners.push_back(std::move(listener));
  Acceptor acceptor(std::move(listeners), secret);
  std::thread([root = Root(std::move(acceptor))]() mutable {
    try {
      root.serve();
    } catch (const std::exception& error) {
      log(LogLevel::warn, "rendezvous failed: %s", error.what());
    }
  }).detach();
}

}  // namespace ccore
