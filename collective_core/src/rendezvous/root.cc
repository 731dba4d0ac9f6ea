#include "rendezvous/root.h"

#include <poll.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/own_thread.h"
#include "rendezvous/channel.h"
#include "transport/tcp/acceptor.h"

namespace ccore {
namespace {

constexpr int64_t kFirstRankMs = 3600 * 1000;  // an id that no rank ever uses does not keep a thread for ever
constexpr int kMostRanks = 65536;

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

class Root {
 public:
  explicit Root(Acceptor acceptor) : acceptor_(std::move(acceptor)) {}

  void serve() {
    try {
      if (!gather_ranks()) return;
      while (one_round()) {
      }
    } catch (const Error& error) {
      tell_all(error);
    }
  }

 private:
  struct Seat {
    std::optional<Channel> channel;
    Address from;
    bool said = false;  // what it has to say in this round
    bool left = false;
    std::string part;
  };

  // False when one of them has failed before all were there.
  bool gather_ranks() {
    while (seats_.empty() || present_ < seats_.size()) {
      auto accepted = acceptor_->next(deadline_, connections());
      if (!accepted) {
        if (deadline_.passed()) throw Error(CC_ERROR_TIMEOUT, "still missing at the deadline: " + missing());
        try {
          hear(0);
        } catch (const Error& error) {
          tell_all(error);
          tell_latecomers(error);
          return false;
        }
        continue;
      }
      const Hello& hello = accepted->hello;
      if (seats_.empty() && (hello.nranks < 1 || hello.nranks > kMostRanks)) continue;
      if (seats_.empty()) seats_.resize(static_cast<size_t>(hello.nranks));
      late_.emplace(std::move(accepted->connection), rank_text(hello.from));  // told too, if it is what fails
      if (hello.nranks != static_cast<int>(seats_.size())) {
        throw Error(CC_ERROR_INVALID_ARGUMENT, rank_text(hello.from) + " says there are " +
                                                   std::to_string(hello.nranks) + " ranks, the first to arrive said " +
                                                   std::to_string(seats_.size()));
      }
      if (hello.from < 0 || hello.from >= hello.nranks) {
        throw Error(CC_ERROR_INVALID_ARGUMENT, rank_text(hello.from) + " is out of range");
      }
      Seat& seat = seats_[static_cast<size_t>(hello.from)];
      if (seat.channel) throw Error(CC_ERROR_INVALID_USAGE, "two processes say they are " + rank_text(hello.from));
      // A little less than the patience of the first who will lose it, so that all hear from us who is missing.
      const Deadline its = Deadline::in_ms(hello.timeout_ms - std::min<int64_t>(hello.timeout_ms / 10, 500));
      if (present_ == 0 || its.remaining_ns() < deadline_.remaining_ns()) deadline_ = its;
      seat.channel = std::exchange(late_, std::nullopt);
      seat.from = peer_address(seat.channel->fd());
      ++present_;
    }
    acceptor_.reset();  // strangers hold no descriptor any more, and the next communicator can use the port
    return true;
  }

  // False when all ranks have left, which ends a successful rendezvous.
  bool one_round() {
    const auto waits_for = [](const Seat& seat) { return !seat.said && !seat.left; };
    while (std::any_of(seats_.begin(), seats_.end(), waits_for)) {
      if (deadline_.passed()) throw Error(CC_ERROR_TIMEOUT, "no answer at the deadline from " + list_of(waits_for));
      hear(deadline_.remaining_ms(1000));
    }
    const auto has_left = [](const Seat& seat) { return seat.left; };
    if (std::all_of(seats_.begin(), seats_.end(), has_left)) return false;
    if (std::any_of(seats_.begin(), seats_.end(), has_left)) {
      throw Error(CC_ERROR_INTERNAL, list_of(has_left) + " left before the others");
    }
    std::string table;
    for (Seat& seat : seats_) table += std::exchange(seat.part, std::string());
    // Before the answers: who has got his may speak again at once.
    for (Seat& seat : seats_) seat.said = false;
    answer_all(table);
    return true;
  }

  // Waits that long for any rank, and reads what there is.
  void hear(int wait_ms) {
    std::vector<pollfd> fds;
    for (const Seat& seat : seats_)
      fds.push_back(pollfd{seat.left || !seat.channel ? -1 : seat.channel->fd(), POLLIN, 0});
    poll(fds.data(), fds.size(), wait_ms);
    for (size_t rank = 0; rank < seats_.size(); ++rank) {
      if (fds[rank].revents != 0) hear_rank(rank);
    }
  }

  // A part of the round, a goodbye, or the end: of this rank, which is that of all.
  void hear_rank(size_t rank) {
    Seat& seat = seats_[rank];
    const std::string who = rank_text(static_cast<int>(rank));
    Message request;
    try {
      request = seat.channel->receive(kMostRendezvousBytes, deadline_);
    } catch (const NotAuthentic&) {
      throw;
    } catch (const Error& error) {
      if (error.code() != CC_ERROR_REMOTE) throw;
      throw Error(CC_ERROR_REMOTE, who + " (from " + host_text(seat.from) + ") died during initialisation");
    }
    if (request.status == kLeaves) {
      seat.left = true;
      return;
    }
    if (request.status != CC_SUCCESS) throw Error(static_cast<cc_result>(request.status), who + ": " + request.bytes);
    if (seat.said) throw Error(CC_ERROR_INTERNAL, who + " spoke out of turn");
    seat.said = true;
    seat.part = std::move(request.bytes);
  }

  void answer_all(const std::string& bytes) {
    for (size_t rank = 0; rank < seats_.size(); ++rank) {
      try {
        seats_[rank].channel->send(CC_SUCCESS, bytes, deadline_);
      } catch (const Error& error) {
        if (error.code() != CC_ERROR_REMOTE) throw;
        hear_rank(rank);  // why it is gone, if it has said so
        throw;
      }
    }
  }

  // The others first: this thread is part of rank 0's process, which may end as soon as that hears of it.
  void tell_all(const Error& error) {
    log(LogLevel::warn, "rendezvous failed: %s", error.what());
    if (late_) tell(&*late_, error);
    for (auto seat = seats_.rbegin(); seat != seats_.rend(); ++seat) {
      if (seat->channel && !seat->left) tell(&*seat->channel, error);
    }
  }

  // Or they would ask, to the end of their patience, who has the rendezvous that they cannot find.
  void tell_latecomers(const Error& error) {
    for (; present_ < seats_.size(); ++present_) {
      auto accepted = acceptor_->next(deadline_);
      if (!accepted) return;
      Channel channel(std::move(accepted->connection), rank_text(accepted->hello.from));
      tell(&channel, error);
    }
  }

  static void tell(Channel* channel, const Error& error) {
    try {
      channel->send(static_cast<uint32_t>(error.code()), error.what(), Deadline::in_ms(1000));
      // Closing over unread bytes would reset the connection and could take the text with it.
      shutdown(channel->fd(), SHUT_WR);
      char rest[512];
      while (recv(channel->fd(), rest, sizeof rest, MSG_DONTWAIT) > 0) {
      }
    } catch (const Error& unreachable) {
      log(LogLevel::info, "%s", unreachable.what());
    }
  }

  std::vector<int> connections() const {
    std::vector<int> fds;
    for (const Seat& seat : seats_) {
      if (seat.channel) fds.push_back(seat.channel->fd());
    }
    return fds;
  }

  std::string missing() const {
    return list_of([](const Seat& seat) { return !seat.channel; }) + " of " + std::to_string(seats_.size()) +
           acceptor_->other_version();
  }

  // "rank 1, 3".
  template <typename Condition>
  std::string list_of(Condition condition) const {
    std::string list;
    for (size_t rank = 0; rank < seats_.size(); ++rank) {
      if (condition(seats_[rank])) list += (list.empty() ? "rank " : ", ") + std::to_string(rank);
    }
    return list;
  }

  std::optional<Acceptor> acceptor_;  // while ranks are missing
  std::vector<Seat> seats_;  // by rank
  size_t present_ = 0;
  std::optional<Channel> late_;
  Deadline deadline_ = Deadline::in_ms(kFirstRankMs);  // of all of it, once the first rank is there
};

}  // namespace

void start_root(UniqueFd listener, const Digest& secret) {
  std::vector<UniqueFd> listeners;
  listeners.push_back(std::move(listener));
  Acceptor acceptor(std::move(listeners), secret);
  own_thread([root = Root(std::move(acceptor))]() mutable {
    try {
      root.serve();
    } catch (const std::exception& error) {
      log(LogLevel::warn, "rendezvous failed: %s", error.what());
    }
  }).detach();
}

}  // namespace ccore
