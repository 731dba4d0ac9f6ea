#include "engine/communicator.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <utility>

#include "collectives/barrier/barrier_dissemination.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/process_id.h"
#include "engine/settings_text.h"
#include "schedule/packing.h"

namespace ccore {
namespace {

// How long a broken data connection waits for the control connection to say why it broke.
constexpr int64_t kCauseMs = 300;

std::vector<Place> places_of(const std::vector<Peer>& peers) {
  std::vector<Place> places;
  for (const Peer& peer : peers) places.push_back(peer.place);
  return places;
}

void sleep_a_moment() {
  const timespec moment{0, 1000000};
  nanosleep(&moment, nullptr);
}

// What else ends an operation on this rank must reach the others as well, or they would wait for their deadline.
template <typename Body>
void told_to_all(Body body) {
  try {
    body();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(CC_ERROR_SYSTEM, "out of memory");
  } catch (const std::exception& error) {
    throw Error(CC_ERROR_INTERNAL, error.what());
  }
}

// When a rank that waits asks the others what they are in: seldom, since most only wait for one that computes.
class Doubt {
 public:
  explicit Doubt(int64_t limit_ms) : wait_ms_(std::min<int64_t>(1000, limit_ms / 2)) {}
  bool due() {
    const bool now = next_ && next_->passed();
    if (now) wait_ms_ = std::min<int64_t>(30000, 2 * wait_ms_);
    if (now || !next_) next_ = Deadline::in_ms(wait_ms_);
    return now;
  }

 private:
  int64_t wait_ms_;
  std::optional<Deadline> next_;  // from the first wait on: operations that never wait do not ask for the time
};

class BusyMark {
 public:
  explicit BusyMark(std::atomic<bool>* flag) : flag_(flag) { flag_->store(true, std::memory_order_release); }
  ~BusyMark() { flag_->store(false, std::memory_order_release); }
  BusyMark(const BusyMark&) = delete;
  BusyMark& operator=(const BusyMark&) = delete;

 private:
  std::atomic<bool>* flag_;
};

}  // namespace

Communicator::Communicator(const UniqueId& id, int rank, int nranks, const Settings& settings)
    : rank_(rank),
      process_(process_id()),
      settings_(settings),
      connections_(connect_ranks(id, rank, nranks, settings_)),
      places_(places_of(connections_.peers)),
      trees_(connections_.link_matrix ? pack_trees(*connections_.link_matrix) : std::vector<Tree>()),
      chooser_{shape_of(places_), connections_.overrides, CostModel()},
      tuning_(connections_.tuner, &chooser_),
      doorbell_(&lonely_doorbell_),
      spin_(may_spin(usable_cores(), connections_.ranks_on_host)),
      transfers_(rank, nranks, [this](const Transfer& transfer) {
        recorder_.set_source(transfer.ticket, transfer.peer);
        recorder_.end(transfer.ticket, CC_SUCCESS);
      }),
      standoff_(rank, nranks) {
  chooser_.chosen = &chosen_;
  if (connections_.link_matrix) {
    chooser_.trees = &trees_;
    chooser_.shape.linked = true;
  }
  settings_.link_matrix = connections_.link_matrix;
  settings_.link_matrix_path.clear();
  settings_.ranks_on_host = connections_.ranks_on_host;  // parts of it inherit this
  std::vector<std::string> names;
  for (const Peer& peer : connections_.peers) names.push_back(peer.name);
  chooser_.shape.shared = connections_.arena && connections_.arena->has_all();
  chooser_.shape.crossed = connections_.cross_memory != nullptr;
  if (connections_.segment) {
    doorbell_ =
        connections_.segment->doorbell(connections_.peers[static_cast<size_t>(rank)].place.local_rank);
  }
  monitor_ =
      std::make_unique<Monitor>(std::move(connections_.control), std::move(names), &failure_, doorbell_);
  log(LogLevel::version, "version %s rank %d of %d: %s", cc_version_string(), rank, nranks,
      summary().c_str());
  if (tuning_.keeps() && nranks > 1) load_choices();
}

Communicator::~Communicator() {
  if (process_ != process_id()) {
    // A forked copy has no monitor thread to stop, and its goodbye would be a lie.
    static_cast<void>(monitor_.release());
    return;
  }
  if (busy()) abort("the communicator was destroyed while an operation was running");
  const std::lock_guard<std::mutex> lock(operation_mutex_);
  monitor_.reset();
}

void Communicator::check_process() const {
  if (process_ != process_id()) {
    throw Error(CC_ERROR_INVALID_USAGE, "the communicator belongs to another process (fork?)");
  }
}

void Communicator::check_usable() const {
  failure_.check();
  if (finalized_) throw Error(CC_ERROR_INVALID_USAGE, "the communicator was finalized");
}

void Communicator::run(Operation operation, int64_t timeout_ms,
                       const std::function<void(const Context&)>& body, uint64_t elements) {
  check_process();
  const std::lock_guard<std::mutex> lock(operation_mutex_);
  if (group_owner_ != std::thread::id()) {
    throw Error(CC_ERROR_INVALID_USAGE, "a group of transfers is open; no other operation runs before its end");
  }
  const BusyMark mark(&busy_);
  check_usable();
  operation.sequence = ++sequence_;
  monitor_->set_begun(sequence_);
  if (has_others_out_of_sight()) monitor_->set_call(operation);
  const int64_t limit_ms = timeout_ms > 0 ? timeout_ms : settings_.timeout_ms;
  const Deadline deadline = Deadline::in_ms(limit_ms);
  int send_to = -1;
  int receive_from = -1;
  chosen_ = Algorithm::none;
  Doubt doubt(limit_ms);
  const uint64_t ticket = recorder_.begin(operation, false, elements > 0 ? elements : operation.count);
  const auto check = [&] {
    recorder_.update(ticket, chosen_, receive_from >= 0 ? receive_from : send_to);
    failure_.check();
    if (has_others_out_of_sight() && doubt.due()) monitor_->ask(operation.sequence);
    check_others(operation);
    monitor_->check_departures(operation.sequence);
    if (!deadline.passed()) return;
    std::string waits;
    if (receive_from >= 0)
      waits += " for data from " + connections_.peers[static_cast<size_t>(receive_from)].name;
    if (send_to >= 0) {
      waits += (waits.empty() ? " for " : " and for ") +
               connections_.peers[static_cast<size_t>(send_to)].name + " to take data";
    }
    throw Error(CC_ERROR_TIMEOUT,
                format("%s on rank %d did not end within its timeout of %.3f s; it waits%s",
                       describe(operation).c_str(), rank_, static_cast<double>(limit_ms) / 1000,
                       waits.c_str()));
  };
  if (connections_.arena) {
    connections_.arena->announce(operation.sequence, reinterpret_cast<const std::byte*>(&operation));
  }
  WaitLadder ladder(doorbell_, monitor_->wake_fd(), spin_, std::cref(check));
  Context context = this->context(&ladder, &send_to, &receive_from, operation);
  std::optional<Chooser> tuned;  // the tuner's choice is for this operation alone
  try {
    if (tuning_.active()) {
      context.chooser = &tuned.emplace(chooser_);
      tuning_.begin(&context, &*tuned);
    }
    told_to_all([&] { body(context); });
    if (tuned) tuning_.end(rank_);
  } catch (const Error& error) {
    recorder_.update(ticket, chosen_, -1);
    recorder_.end(ticket, error.code());
    give_up(error, operation.sequence);
  }
  if (chosen_ != Algorithm::none) recorder_.update(ticket, chosen_, -1);
  recorder_.end(ticket, CC_SUCCESS);
  monitor_->set_finished(sequence_);
}

Context Communicator::context(WaitLadder* ladder, int* send_to, int* receive_from, const Operation& operation) {
  Context context{rank_,
                  size(),
                  [this](int peer) -> Link& { return *connections_.links[static_cast<size_t>(peer)]; },
                  ladder,
                  send_to,
                  receive_from,
                  operation,
                  [this](int peer) { return monitor_->has_left(peer); },
                  &places_,
                  &chooser_};
  context.node_arena = connections_.arena.get();
  context.windows = &windows_;
  context.cross_memory = connections_.cross_memory.get();
  context.arena = context.node_arena && context.node_arena->has_all() ? context.node_arena : nullptr;
  return context;
}

bool Communicator::call_of(int rank, uint64_t operation, Operation* called) const {
  const int local = connections_.arena ? connections_.arena->local_of(rank) : -1;
  if (local < 0) return monitor_->answered(rank, operation, called);
  return connections_.arena->announced(local, operation, reinterpret_cast<std::byte*>(called));
}

bool Communicator::has_others_out_of_sight() const {
  return size() > 1 && !(connections_.arena && connections_.arena->has_all());
}

// A rank that waits in shared memory and one that waits on a link would not find each other's headers, nor would two
// that both wait to receive.
void Communicator::check_others(const Operation& operation) const {
  for (int rank = 0; rank < size(); ++rank) {
    Operation other;
    if (rank != rank_ && call_of(rank, operation.sequence, &other)) require_same(operation, rank_, other, rank);
  }
}

void Communicator::transfer(Transfer transfer) {
  check_process();
  if (transfer.limit_ms <= 0) transfer.limit_ms = settings_.timeout_ms;
  const std::lock_guard<std::mutex> lock(operation_mutex_);
  check_usable();
  if (group_owner_ != std::thread::id()) {
    require_own_group();
    transfer.ticket = recorder_.begin(transfers_.next_header(transfer), transfer.sends, transfer.header.count);
    transfers_.add(transfer);
    return;
  }
  if (transfer.peer == rank_ || size() == 1) {
    throw Error(CC_ERROR_INVALID_USAGE, "a rank can send to itself only in a group");
  }
  transfer.ticket = recorder_.begin(transfers_.next_header(transfer), transfer.sends, transfer.header.count);
  transfers_.add(transfer);
  move_transfers(nullptr, 0);
  transfers_.clear();
}

void Communicator::open_group() {
  check_process();
  const std::lock_guard<std::mutex> lock(operation_mutex_);
  check_usable();
  if (group_owner_ != std::thread::id()) throw Error(CC_ERROR_INVALID_USAGE, "a group is already open");
  group_owner_ = std::this_thread::get_id();
}

void Communicator::advance_group(int64_t wait_ms, unsigned char* finished, size_t count) {
  check_process();
  const std::lock_guard<std::mutex> lock(operation_mutex_);
  failure_.check();
  require_own_group();
  if (count != transfers_.count()) {
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                format("the group has %zu transfers, not %zu", transfers_.count(), count));
  }
  const Deadline patience = Deadline::in_ms(wait_ms);
  move_transfers(&patience, wait_ms);
  for (size_t i = 0; i < count; ++i) finished[i] = transfers_.finished(i) ? 1 : 0;
}

void Communicator::close_group() {
  check_process();
  const std::lock_guard<std::mutex> lock(operation_mutex_);
  require_own_group();
  move_transfers(nullptr, 0);
  transfers_.clear();
  group_owner_ = std::thread::id();
}

void Communicator::require_own_group() const {
  if (group_owner_ == std::this_thread::get_id()) return;
  throw Error(CC_ERROR_INVALID_USAGE, group_owner_ == std::thread::id()
                                          ? "no group is open"
                                          : "another thread has a group of transfers open");
}

// A failure is the end of the group too.
void Communicator::move_transfers(const Deadline* patience, int64_t wait_ms) {
  const BusyMark mark(&busy_);
  try {
    const auto check = [&] {
      failure_.check();
      transfers_.check_deadlines(
          [this](int peer) { return connections_.peers[static_cast<size_t>(peer)].name; });
      if (connections_.arena) standoff_.check(transfers_, *connections_.arena, sequence_);
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
        [&](const Transfer& transfer) { recorder_.end(transfer.ticket, cause.code()); });
    transfers_.clear();
    group_owner_ = std::thread::id();
    give_up(cause, 0);
  }
}

// Of transfers that are late: whether the other rank waits for this one in an operation.
Error Communicator::explained(const Error& late) const {
  const std::string missing = monitor_->who_is_missing(0, sequence_ + 1);
  try {
    standoff_.explain(
        transfers_, [this](int peer, uint64_t number, Operation* called) { return call_of(peer, number, called); },
        sequence_);
  } catch (const Error& desync) {
    return desync;
  }
  return Error(late.code(), late.what() + missing);
}

void Communicator::give_up(const Error& error, uint64_t operation) {
  if (error.code() == CC_ERROR_REMOTE) {
    const Deadline patience = Deadline::in_ms(kCauseMs);
    while (failure_.code() == CC_SUCCESS && !patience.passed()) sleep_a_moment();
  }
  std::string text = error.what();
  if (error.code() == CC_ERROR_TIMEOUT && operation > 0) text += monitor_->who_is_missing(operation, operation);
  monitor_->fail(error.code(), text);
  log_trace(failure_.code());
  throw Error(failure_.code(), failure_.text());
}

void Communicator::log_trace(cc_result code) const {
  if (code == CC_ERROR_ABORTED || log_level() < LogLevel::warn) return;
  const int64_t now = now_ns();
  log(LogLevel::warn, "the last operations of rank %d, oldest first:", rank_);
  for (const cc_trace_entry& entry : recorder_.recent()) {
    log(LogLevel::warn, "  %s", ccore::describe(entry, now).c_str());
  }
}

bool Communicator::registered(uint64_t number) {
  const std::lock_guard<std::mutex> lock(operation_mutex_);
  return windows_.has(number);
}

void Communicator::abort(const std::string& why) {
  check_process();
  if (finalized_) return;  // nothing can run here, and what others still do is no concern of this rank
  monitor_->fail(CC_ERROR_ABORTED, why);
}

void Communicator::finalize(int64_t timeout_ms) {
  check_process();
  if (finalized_) return;
  Operation operation;
  operation.kind = Kind::finalize;
  run(operation, timeout_ms, [this](const Context& context) {
    if (context.nranks > 1) barrier_dissemination(context);
    finalized_ = true;
    monitor_->say_goodbye(context.operation.sequence);
  });
}

void Communicator::fill(int rank, cc_peer_info* info) const {
  const Peer& peer = connections_.peers[static_cast<size_t>(rank)];
  cc_peer_info full{};
  full.size = std::min(info->size, sizeof full);
  full.rank = rank;
  full.node = peer.place.node;
  full.local_rank = peer.place.local_rank;
  full.local_size = peer.place.local_size;
  full.pid = peer.pid;
  std::strncpy(full.host, peer.host.c_str(), sizeof full.host - 1);
  std::strncpy(full.address, host_text(peer.address).c_str(), sizeof full.address - 1);
  const auto& link = connections_.links[static_cast<size_t>(rank)];
  std::strncpy(full.transport, link ? link->name() : "self", sizeof full.transport - 1);
  if (link) {
    full.payload_bytes_sent = link->payload_bytes_sent;
    full.payload_bytes_received = link->payload_bytes_received;
  }
  std::memcpy(info, &full, full.size);
}

std::string Communicator::settings_text() const {
  return ccore::settings_text(told_settings(rank_, settings_, connections_));
}

std::string Communicator::summary() const {
  int nodes = 0;
  int shm = 0;
  int tcp = 0;
  for (size_t rank = 0; rank < connections_.peers.size(); ++rank) {
    nodes = std::max(nodes, connections_.peers[rank].place.node + 1);
    const auto& link = connections_.links[rank];
    if (link) ++(link->fd() >= 0 ? tcp : shm);
  }
  const std::string& obstacle = connections_.cross_memory_obstacle;
  return format("%d ranks on %d nodes, transport shm to %d, tcp to %d, cma %s", size(), nodes, shm, tcp,
                obstacle.empty() ? "in use" : ("not used: " + obstacle).c_str());
}

}  // namespace ccore
