// A connected rank: runs one operation at a time, with a deadline, and keeps the first error.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "collectives/context.h"
#include "collectives/links/transfers.h"
#include "common/quick_clock.h"
#include "engine/connect.h"
#include "engine/deadlock_check.h"
#include "engine/failure.h"
#include "engine/measuring.h"
#include "engine/monitor.h"
#include "engine/recorder.h"
#include "engine/settings_text.h"
#include "engine/tuning.h"
#include "engine/turns.h"
#include "transport/shm/windows.h"

namespace ccore {

class Communicator {
 public:
  Communicator(const UniqueId& id, int rank, int nranks, const Settings& settings);
  // Ends what other threads have called, whether it runs or waits for its turn, then says goodbye.
  ~Communicator();

  // Runs body as the next operation; timeout_ms 0: the communicator's. Throws the communicator's first error.
  // elements: what the recorder counts, if not operation.count.
  void run(Operation operation, int64_t timeout_ms, const std::function<void(const Context&)>& body,
           uint64_t elements = 0);
  // Moves the transfer, or, if this thread has a group open, adds it to the group.
  void transfer(Transfer transfer);
  void open_group();
  // Returns when one more of its transfers has ended or wait_ms have passed; finished[i]: that the i-th has.
  void advance_group(int64_t wait_ms, unsigned char* finished, size_t count);
  // Returns when all have ended.
  void close_group();
  void abort(const std::string& why);
  // Makes this the communicator's error, if it is the first, and tells all ranks.
  void fail(cc_result code, const std::string& text);
  // Aborts what runs, as the communicator is about to go; wait_for_none() returns when no thread is in a call any more.
  void end_operations();
  void wait_for_none() const { turns_.wait_for_none(); }
  // Whether this process is a fork of the one that made it.
  bool is_forked() const;
  // Returns when all ranks have called it; then says goodbye. Nothing runs afterwards.
  void finalize(int64_t timeout_ms);
  // Both are operations: every rank calls them in the same place.
  void retune();
  void set_algorithm(const Choice& choice);
  // Throws CC_ERROR_INVALID_ARGUMENT.
  Choice choice_of(const std::string& collective, uint64_t bytes, cc_dtype dtype, const std::string& algorithm) const;
  std::string tuner_text();

  int rank() const { return rank_; }
  const std::vector<Place>& places() const { return places_; }
  int size() const { return static_cast<int>(connections_.peers.size()); }
  const Settings& settings() const { return settings_; }
  // Where this rank's host can be reached by the others.
  const Address& own_address() const { return connections_.peers[static_cast<size_t>(rank_)].address; }
  // Whether that is the number of a registration. Waits for a running operation.
  bool registered(uint64_t number);
  // Only for what runs as an operation of this communicator.
  Windows& windows() { return windows_; }
  // Null if no data goes by RDMA.
  const RdmaRails& rdma_rails() const { return connections_.rdma_rails; }
  // The name of the way that the running operation takes on device memory; constant text.
  void set_way(const char* name) { way_ = name; }
  const Recorder& recorder() const { return recorder_; }
  const Failure& failure() const { return failure_; }
  // Whether a thread is in it, or waits to be.
  bool busy() const { return turns_.any(); }
  // For a call that is not one operation.
  Turns::Stay stay() { return Turns::Stay(&turns_); }
  void fill(int rank, cc_peer_info* info) const;
  // "4 ranks on 2 nodes, transport shm to 1, tcp to 2, cma not used: the ranks do not all share memory".
  std::string summary() const;
  // Settings that a communicator has from another place than the environment of its rank.
  ToldSettings told_settings() const;
  void fill(cc_limits* limits) const;
  // As cc_describe, but for the size of the struct.
  cc_description description_of(const Operation& operation);
  // How this rank reaches the others: "shm", "shm+tcp"; "self" if there are none.
  std::string transports() const;

 private:
  void leave_rdma();
  void load_choices();
  CacheIdentity table_identity() const;
  void check_process() const;
  void check_usable() const;
  // What a rank called as the operation of that number, as far as it is known here; false if it is not.
  bool call_of(int rank, uint64_t operation, Operation* called) const;
  // Whether what some rank is in can only be found out by asking it.
  bool has_others_out_of_sight() const;
  // Throws CC_ERROR_DESYNC if a rank is known to have called something else in its place.
  void check_others(const Operation& operation) const;
  Context context(WaitLadder* ladder, int* send_to, int* receive_from, const Operation& operation);
  void require_own_group() const;
  void move_transfers(const Deadline* patience, int64_t wait_ms);
  // operation: its number; 0: of a transfer, which `explained` has had.
  [[noreturn]] void give_up(const Error& error, uint64_t operation);
  Error explained(const Error& late) const;
  void log_trace(cc_result code) const;

  int rank_;
  int64_t process_;
  Settings settings_;
  Connections connections_;
  std::vector<Place> places_;
  NodeOrder order_;
  Windows windows_;
  std::vector<Tree> trees_;  // by the matrix of links, if there is one
  Chooser chooser_;
  Measuring measuring_;
  Tuning tuning_;
  Doorbell lonely_doorbell_;  // when no segment has one for us
  Doorbell* doorbell_;
  bool spin_;
  Failure failure_;
  std::unique_ptr<Monitor> monitor_;
  Turns turns_;
  std::atomic<bool> finalized_{false};
  uint64_t sequence_ = 0;
  QuickClock clock_;  // of whose turn it is
  Recorder recorder_;
  Algorithm chosen_ = Algorithm::none;  // by the operation that runs
  const char* way_ = nullptr;           // of the operation that runs, if it is on device memory
  Transfers transfers_;
  DeadlockCheck deadlock_check_;
  std::thread::id group_owner_;  // of the open group; default: none is open
};

}  // namespace ccore
