// Watches the control connections to all other ranks: news of their failures, their goodbyes, their deaths.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/operation.h"
#include "common/notice.h"
#include "common/unique_fd.h"
#include "engine/failure.h"
#include "engine/not_inherited.h"
#include "transport/progress.h"
#include "transport/tcp/connection.h"

namespace ccore {

class Monitor {
 public:
  // A process that runs answers in a fraction of it, even on a machine that is busy.
  static constexpr int64_t kAnswerMs = 500;

  // control: by rank, empty at the own place. names: ranks in words. doorbell: rung on news.
  Monitor(std::vector<Connection> control, std::vector<std::string> names, Failure* failure, Doorbell* doorbell);
  // Says goodbye with the number of operations that this rank has finished, then closes.
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // Tells all ranks that this one is done after that many operations. Once; the destructor does it otherwise.
  void say_goodbye(uint64_t operations);
  void set_finished(uint64_t operations) { finished_.store(operations, std::memory_order_relaxed); }
  // Records the failure if it is the first, tells all ranks and wakes the waiting thread. Never blocks.
  void fail(cc_result code, const std::string& text);
  // The operation that this rank is in, or was in last.
  void set_begun(uint64_t operation) { begun_.store(operation, std::memory_order_relaxed); }
  // What it is, for those who ask.
  void set_call(const Operation& operation);
  // Asks all ranks what they called as the operation of that number, and returns at once.
  void ask(uint64_t operation);
  // Copies what that rank has answered; false: it has not, or has not called it when it was asked.
  bool answered(int rank, uint64_t operation, Operation* called) const;
  // Why an operation does not end, as far as the other ranks' monitors can tell: who gives no answer, and who has
  // not called it (operation 0: of no interest). In words that continue a sentence; empty if nothing is known. Takes
  // kAnswerMs at most. asked: as in `ask`.
  std::string who_is_missing(uint64_t operation, uint64_t asked);
  // Readable from the first failure on.
  int wake_fd() const { return wake_fd_.get(); }
  // Whether that rank has destroyed its communicator.
  bool has_left(int rank) const;
  // Whether the connection to a rank has ended without its goodbye.
  bool is_gone(int rank) const;
  // Throws CC_ERROR_REMOTE if a rank has left without taking part in that operation.
  void check_departures(uint64_t operation) const;

 private:
  enum class FrameType : uint32_t;
  struct Frame;
  struct Peer;
  void watch();
  void read_frames(size_t rank);
  void handle(size_t rank, const Frame& frame);
  void send_to_all(const Frame& frame);
  void send_to(Peer* peer, Frame frame);
  void answer(size_t rank, const Frame& question);
  void give_up_on(const std::string& why);
  bool silent(size_t rank) const;
  void wake();

  std::vector<std::string> names_;
  Failure* failure_;
  Doorbell* doorbell_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::atomic<uint64_t> finished_{0};
  std::atomic<uint64_t> begun_{0};
  std::array<Notice, 16> calls_;  // the last operations of this rank, by their numbers
  uint32_t asked_ = 0;
  bool said_goodbye_ = false;
  std::atomic<bool> anyone_left_{false};
  std::mutex send_mutex_;
  UniqueFd wake_fd_;
  UniqueFd stop_fd_;
  std::optional<NotInherited> control_fds_;
  std::thread thread_;
};

}  // namespace ccore
