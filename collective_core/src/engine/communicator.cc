#include "engine/communicator.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "collectives/barrier/barrier.h"
#include "collectives/shm/mutual_access.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/process_id.h"
#include "engine/failure.h"
#include "schedule/packing.h"

namespace ccore {
namespace {

std::vector<Place> places_of(const std::vector<Peer>& peers) {
  std::vector<Place> places;
  for (const Peer& peer : peers) places.push_back(peer.place);
  return places;
}

void sleep_a_moment() {
  const timespec moment{0, 1000000};
  nanosleep(&moment, nullptr);
}

// When a rank that waits asks the others what they are in: seldom, since most only wait for one that computes.
class AskSchedule {
 public:
  explicit AskSchedule(int64_t limit_ms) : wait_ms_(std::min<int64_t>(1000, limit_ms / 2)) {}
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

}  // namespace

Communicator::Communicator(const UniqueId& id, int rank, int nranks, const Settings& settings)
    : rank_(rank),
      process_(process_id()),
      settings_(settings),
      connections_(connect_ranks(id, rank, nranks, settings_)),
      places_(places_of(connections_.peers)),
      order_(places_),
      trees_(connections_.link_matrix ? pack_trees(*connections_.link_matrix) : std::vector<Tree>()),
      chooser_{shape_of(places_), connections_.overrides, CostModel()},
      measuring_(connections_.tuner.measure != 0 && nranks > 1, connections_.roomy,
                 connections_.tuner.keep_timings != 0),
      tuning_(connections_.tuner, &chooser_),
      doorbell_(&lonely_doorbell_),
      spin_(may_spin(connections_.cores_on_host, connections_.ranks_on_host)),
      transfers_(rank, nranks,
                 [this](const Transfer& transfer) {
                   recorder_.set_source(transfer.ticket, transfer.peer);
                   recorder_.end(transfer.ticket, CC_SUCCESS, clock_.now_ns());
                 }),
      deadlock_check_(rank, nranks) {
  chooser_.chosen = &chosen_;
  if (connections_.link_matrix) {
    chooser_.trees = &trees_;
    chooser_.shape.linked = true;
  }
  settings_.link_matrix = connections_.link_matrix;
  settings_.link_matrix_path.clear();
  settings_.ranks_on_host = connections_.ranks_on_host;  // parts of it inherit these
  settings_.cores_on_host = connections_.cores_on_host;
  settings_.roomy = connections_.roomy;
  std::vector<std::string> names;
  for (const Peer& peer : connections_.peers) names.push_back(peer.name);
  chooser_.shape.shared = connections_.arena && connections_.arena->has_all();
  chooser_.shape.crossed = connections_.cross_memory != nullptr;
  chooser_.shape.socketed =
      chooser_.shape.nodes == 1 && std::any_of(connections_.links.begin(), connections_.links.end(),
                                               [](const auto& link) { return link && link->fd() >= 0; });
  chooser_.model.measured = &measuring_.measured();
  if (connections_.segment) {
    doorbell_ = connections_.segment->doorbell(connections_.peers[static_cast<size_t>(rank)].place.local_rank);
  }
  monitor_ = std::make_unique<Monitor>(std::move(connections_.control), std::move(names), &failure_, doorbell_);
  log(LogLevel::version, "version %s rank %d of %d: %s", cc_version_string(), rank, nranks, summary().c_str());
  if (tuning_.keeps() && nranks > 1) load_choices();
}

Communicator::~Communicator() {
  if (is_forked()) {
    // A forked copy has no monitor thread to stop, and its goodbye would be a lie.
    static_cast<void>(monitor_.release());
    leave_rdma();
    return;
  }
  end_operations();
  turns_.wait_for_none();
  monitor_.reset();
  if (rank_ == 0) measuring_.save();
}

// Queue pairs and registrations are the parent's: to destroy them here would end its connections. Nor may this process
// wait for the thread that watches the device, which the links keep.
void Communicator::leave_rdma() {
  if (connections_.rdma_rails.empty()) return;
  for (std::unique_ptr<Link>& link : connections_.links) {
    if (link && std::strcmp(link->name(), "rdma") == 0) static_cast<void>(link.release());
  }
  static_cast<void>(new Windows(std::move(windows_)));
}

bool Communicator::is_forked() const { return process_ != process_id(); }

void Communicator::end_operations() {
  if (busy()) abort("the communicator was destroyed while an operation was running");
}

void Communicator::fail(cc_result code, const std::string& text) { monitor_->fail(code, text); }

void Communicator::check_process() const {
  if (is_forked()) {
    throw Error(CC_ERROR_INVALID_USAGE, "the communicator belongs to another process (fork?)");
  }
}

void Communicator::check_usable() const {
  failure_.check();
  if (finalized_) throw Error(CC_ERROR_INVALID_USAGE, "the communicator was finalized");
}

void Communicator::run(Operation operation, int64_t timeout_ms, const std::function<void(const Context&)>& body,
                       uint64_t elements) {
  check_process();
  const Turns::Turn turn(&turns_);
  if (group_owner_ != std::thread::id()) {
    throw Error(CC_ERROR_INVALID_USAGE, "a group of transfers is open; no other operation runs before its end");
  }
  check_usable();
  operation.sequence = ++sequence_;
  monitor_->set_begun(sequence_);
  if (has_others_out_of_sight()) monitor_->set_call(operation);
  const int64_t limit_ms = timeout_ms > 0 ? timeout_ms : settings_.timeout_ms;
  const int64_t start_ns = clock_.now_ns();
  const Deadline deadline = Deadline::in_ms(limit_ms, start_ns);
  int send_to = -1;
  int receive_from = -1;
  chosen_ = Algorithm::none;
  way_ = nullptr;
  AskSchedule asking(limit_ms);
  const uint64_t ticket = recorder_.begin(operation, false, elements > 0 ? elements : operation.count, start_ns);
  const auto check = [&] {
    recorder_.update(ticket, chosen_, receive_from >= 0 ? receive_from : send_to);
    failure_.check();
    if (has_others_out_of_sight() && asking.due()) monitor_->ask(operation.sequence);
    check_others(operation);
    monitor_->check_departures(operation.sequence);
    if (!deadline.passed()) return;
    std::string waits;
    if (receive_from >= 0) waits += " for data from " + connections_.peers[static_cast<size_t>(receive_from)].name;
    if (send_to >= 0) {
      waits += (waits.empty() ? " for " : " and for ") + connections_.peers[static_cast<size_t>(send_to)].name +
               " to take data";
    }
    throw Error(CC_ERROR_TIMEOUT,
                format("%s on rank %d did not end within its timeout of %.3f s; it waits%s",
                       describe(operation).c_str(), rank_, static_cast<double>(limit_ms) / 1000, waits.c_str()));
  };
  if (connections_.arena) {
    connections_.arena->announce(operation.sequence, reinterpret_cast<const std::byte*>(&operation));
  }
  WaitLadder ladder(doorbell_, monitor_->wake_fd(), spin_, std::cref(check));
  Context context = this->context(&ladder, &send_to, &receive_from, operation);
  std::unique_ptr<Chooser> tuned;  // the tuner's choice is for this operation alone
  try {
    const bool on_host = !on_device(operation);
    if (on_host && measuring_.due(operation, chooser_)) {
      measuring_.run(context, chooser_, [this] { return table_identity(); });
      chooser_.remembered = RememberedChoices();
      context.past_caches_bytes = measuring_.measured().past_caches_bytes(operation.kind);
      context.takes_over = measuring_.measured().takes_over(operation.kind);
    }
    if (on_host && tuning_.active()) {
      tuned = std::make_unique<Chooser>(chooser_);
      context.chooser = tuned.get();
      tuning_.begin(&context, tuned.get());
    }
    told_to_all([&] { body(context); });
    if (tuned) tuning_.end();
  } catch (const Error& error) {
    recorder_.end(ticket, error.code(), clock_.now_ns(), chosen_, way_);
    give_up(error, operation.sequence);
  }
  recorder_.end(ticket, CC_SUCCESS, clock_.now_ns(), chosen_, way_);
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
                  [this](int peer) { return monitor_->is_gone(peer); },
                  &places_,
                  &chooser_};
  if (!order_.is_that_of_ranks()) context.order = &order_;
  context.node_arena = connections_.arena.get();
  context.windows = &windows_;
  context.past_caches_bytes = measuring_.measured().past_caches_bytes(operation.kind);
  context.takes_over = measuring_.measured().takes_over(operation.kind);
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

void Communicator::give_up(const Error& error, uint64_t operation) {
  if (error.code() == CC_ERROR_REMOTE) {
    // A rank that leaves waits for others to let go of its buffers, then asks who is missing, and only then says why.
    const bool left = dynamic_cast<const LeftOperation*>(&error) != nullptr;
    const Deadline patience = Deadline::in_ms(left ? MutualAccess::kLeaveMs + Monitor::kAnswerMs + kCauseMs : kCauseMs);
    while (failure_.code() == CC_SUCCESS && !patience.passed()) sleep_a_moment();
  }
  std::string text = error.what();
  if (error.code() == CC_ERROR_TIMEOUT && operation > 0) text += monitor_->who_is_missing(operation, operation);
  if (error.code() == CC_ERROR_TIMEOUT) text += losses_of_rails(connections_.rdma_rails);
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
  check_process();
  const Turns::Turn turn(&turns_);
  return windows_.has(number);
}

void Communicator::abort(const std::string& why) {
  check_process();
  if (finalized_) return;  // nothing can run here, and what others still do does not concern this rank
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

}  // namespace ccore
