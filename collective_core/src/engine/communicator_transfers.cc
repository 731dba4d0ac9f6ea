// The transfers of a communicator: alone, or in the group that a thread has opened.
#include <algorithm>

#include "engine/communicator.h"
#include "engine/failure.h"

namespace ccore {

void Communicator::transfer(Transfer transfer) {
  check_process();
  if (transfer.limit_ms <= 0) transfer.limit_ms = settings_.timeout_ms;
  const Turns::Turn turn(&turns_);
  check_usable();
  if (group_owner_ != std::thread::id()) {
    require_own_group();
    transfer.ticket =
        recorder_.begin(transfers_.next_header(transfer), transfer.sends, transfer.header.count, clock_.now_ns());
    transfers_.add(transfer);
    return;
  }
  if (transfer.peer == rank_ || size() == 1) {
    throw Error(CC_ERROR_INVALID_USAGE, "a rank can send to itself only in a group");
  }
  transfer.ticket =
      recorder_.begin(transfers_.next_header(transfer), transfer.sends, transfer.header.count, clock_.now_ns());
  transfers_.add(transfer);
  move_transfers(nullptr, 0);
  transfers_.clear();
}

void Communicator::open_group() {
  check_process();
  const Turns::Turn turn(&turns_);
  check_usable();
  if (group_owner_ != std::thread::id()) throw Error(CC_ERROR_INVALID_USAGE, "a group is already open");
  group_owner_ = std::this_thread::get_id();
}

void Communicator::advance_group(int64_t wait_ms, unsigned char* finished, size_t count) {
  check_process();
  const Turns::Turn turn(&turns_);
  failure_.check();
  require_own_group();
  if (count != transfers_.count()) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, format("the group has %zu transfers, not %zu", transfers_.count(), count));
  }
  const Deadline patience = Deadline::in_ms(wait_ms);
  move_transfers(&patience, wait_ms);
  for (size_t i = 0; i < count; ++i) finished[i] = transfers_.finished(i) ? 1 : 0;
}

void Communicator::close_group() {
  check_process();
  const Turns::Turn turn(&turns_);
  require_own_group();
  move_transfers(nullptr, 0);
  transfers_.clear();
  group_owner_ = std::thread::id();
}

void Communicator::require_own_group() const {
  if (group_owner_ == std::this_thread::get_id()) return;
  throw Error(CC_ERROR_INVALID_USAGE,
              group_owner_ == std::thread::id() ? "no group is open" : "another thread has a group of transfers open");
}

// A failure is the end of the group too.
void Communicator::move_transfers(const Deadline* patience, int64_t wait_ms) {
  try {
    const auto check = [&] {
      failure_.check();
      transfers_.check_deadlines([this](int peer) { return connections_.peers[static_cast<size_t>(peer)].name; });
      if (connections_.arena) deadlock_check_.check(transfers_, *connections_.arena, sequence_);
    };
    check();
    WaitLadder ladder(doorbell_, monitor_->wake_fd(), spin_, check);
    if (patience) ladder.sleep_at_most(static_cast<int>(std::min<int64_t>(wait_ms, 1000)));
    int unused = -1;
    const Context context = this->context(&ladder, &unused, &unused, Operation());
    told_to_all([&] { transfers_.run(context, patience); });
  } catch (const Error& error) {
    const Error cause = error.code() == CC_ERROR_TIMEOUT ? explained(error) : error;
    transfers_.for_each_unfinished(
        [&](const Transfer& transfer) { recorder_.end(transfer.ticket, cause.code(), clock_.now_ns()); });
    transfers_.clear();
    group_owner_ = std::thread::id();
    give_up(cause, 0);
  }
}

// Of transfers that are late: whether the other rank waits for this one in an operation.
Error Communicator::explained(const Error& late) const {
  const std::string missing = monitor_->who_is_missing(0, sequence_ + 1);
  try {
    deadlock_check_.explain(
        transfers_, [this](int peer, uint64_t number, Operation* called) { return call_of(peer, number, called); },
        sequence_);
  } catch (const Error& desync) {
    return desync;
  }
  return Error(late.code(), late.what() + missing);
}

}  // namespace ccore
