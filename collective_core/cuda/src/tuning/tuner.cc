#include "tuning/tuner.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "capture_mode.h"
#include "clock.h"
#include "common/log.h"
#include "error.h"
#include "tuning/compare.h"

namespace ccore_cuda {
namespace {

using ccore::LogLevel;

constexpr int64_t kLookNs = 1000000;  // a wait of this length is spent looking; later the thread sleeps
constexpr const char* kNames[kWays] = {"automatic", "packets", "cpus", "slots", "buffers", "rival"};

// Rank 0's settings and kept choices hold for all.
struct Shared {
  TuningSettings settings;
  uint8_t choices[kCallClasses];
  char error[160];
};

size_t bytes_of(int collective, size_t count, cc_dtype dtype, int ranks) {
  const bool has_shares = collective == CC_CUDA_ALL_GATHER || collective == CC_CUDA_REDUCE_SCATTER;
  return count * cc_dtype_size(dtype) * (has_shares ? static_cast<size_t>(ranks) : 1);
}

bool same_kind(const cc_cuda_call& one, const cc_cuda_call& other) {
  return one.count == other.count && one.dtype == other.dtype && one.op == other.op && one.root == other.root;
}

std::string text_of(CallClass of) {
  return std::string(name_of_collective(of.collective)) + " of 2^" + std::to_string(of.size) + " bytes";
}

}  // namespace

std::optional<Tuner::Rival> Tuner::copy_of(const cc_cuda_rival* rival) {
  if (!rival) return std::nullopt;
  return Rival{*rival, rival->name, rival->version};
}

Tuner::Tuner(Group* group, const cc_cuda_rival* rival)
    : group_(group),
      rival_(copy_of(rival)),
      shared_records_(group->meeting(), sizeof(SharedRecord) * kCallClasses * static_cast<size_t>(group->size()),
                      "the memory of the tuner") {
  group_->meeting().all_or_none([&] { result_check_ = std::make_unique<ResultCheck>(group_->rank(), group_->size()); });
  share_settings();
}

void Tuner::share_settings() {
  Shared own{};
  std::vector<KeptChoice> found;
  try {
    own.settings = tuning_settings();
    if (group_->rank() == 0 && own.settings.keeps) {
      const std::string against = rival_ ? rival_->name + " " + rival_->version : "";
      kept_ = std::make_unique<KeptChoices>(identity_of_choices(group_->description(), against), own.settings.updates);
      found = kept_->found();
    }
  } catch (const Error& error) {
    put(own.error, error.what());
  }
  for (const KeptChoice& one : found) {
    for (int way = 0; way < kWays; ++way) {
      const bool known = one.by == name_of(static_cast<Way>(way)) && (static_cast<Way>(way) != Way::kRival || rival_);
      if (known) own.choices[one.of.index()] = static_cast<uint8_t>(way + 1);
    }
  }
  const std::vector<Shared> all = group_->meeting().exchange(own);
  require_all(all);
  settings_ = all[0].settings;
  for (int index = 0; index < kCallClasses; ++index) {
    const uint8_t choice = all[0].choices[index];
    if (choice != 0) choose(class_of_index(index), static_cast<Way>(choice - 1), 0, 0, true);
  }
}

std::string Tuner::name_of(Way way) const {
  return way == Way::kRival && rival_ ? rival_->name : kNames[static_cast<size_t>(way)];
}

CallClass Tuner::class_of_call(const cc_cuda_call& call) const {
  return class_of(call.collective, call.dtype, bytes_of(call.collective, call.count, call.dtype, group_->size()));
}

std::optional<Way> Tuner::choice_for(int collective, size_t count, cc_dtype dtype) const {
  const CallClass of = class_of(collective, dtype, bytes_of(collective, count, dtype, group_->size()));
  const uint8_t choice = choices_[static_cast<size_t>(of.index())].load(std::memory_order_acquire);
  if (choice == 0) return std::nullopt;
  return static_cast<Way>(choice - 1);
}

Way Tuner::fallback(const cc_cuda_call& call) const {
  const size_t bytes = bytes_of(call.collective, call.count, call.dtype, group_->size());
  return rival_ && bytes > rival_->calls.until_bytes[call.collective] ? Way::kRival : Way::kAutomatic;
}

void Tuner::carry_out(const cc_cuda_call& call, Way way) {
  if (way != Way::kRival) return group_->carry_out(call, way);
  const cc_result result = rival_->calls.run(rival_->calls.context, &call);
  if (result != CC_SUCCESS) throw Error(result, rival_->name + " refused " + name_of_collective(call.collective));
}

void Tuner::run(const cc_cuda_call& call) {
  if (const std::optional<Way> chosen = choice_for(call.collective, call.count, call.dtype)) {
    return carry_out(call, *chosen);
  }
  // What is captured runs again and again as it is: it never takes part.
  if (group_->size() == 1 || is_captured(static_cast<cudaStream_t>(call.stream))) {
    return carry_out(call, fallback(call));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const CallClass of = class_of_call(call);
  std::unique_ptr<Open>& open = open_[static_cast<size_t>(of.index())];
  if (!open) open = std::make_unique<Open>();
  compete(call, of, open.get());
}

void Tuner::open_trials(const cc_cuda_call& call, CallClass of, Open* open) {
  open->measured = call;
  if (rival_) open->ways.push_back(Way::kRival);
  for (const Way way : group_->ways_of(call)) open->ways.push_back(way);
  if (open->ways.size() > 1)
    open->trials.emplace(settings_.plan, open->ways.size(), shared_records(of), group_->rank());
}

void Tuner::compete(const cc_cuda_call& call, CallClass of, Open* open) {
  if (!open->measured) {
    if (open->calls++ < settings_.plan.warmup || !can_compare(call.dtype)) return carry_out(call, fallback(call));
    open_trials(call, of, open);
  }
  // Times of different sizes say nothing about candidates.
  if (!open->trials || !same_kind(call, *open->measured)) return carry_out(call, fallback(call));
  const RelaxedCapture relaxed;  // events; another thread may be capturing
  const int64_t begin = now_ns();
  const Trials::Turn turn = open->trials->next(
      [&](Record* record) {
        if (!open->timed.collect(record)) return false;
        result_check_->read(of, record);
        return true;
      },
      [&](size_t rank) { wait_for(static_cast<int>(rank), text_of(of), begin); });
  if (turn.step.kind == Step::Kind::kTrial) return try_out(call, of, turn, open);
  if (!turn.verdict) return carry_out(call, fallback(call));
  settle(of, *turn.verdict, open->ways);
  carry_out(call, open->ways[turn.verdict->winner]);
}

void Tuner::try_out(const cc_cuda_call& call, CallClass of, const Trials::Turn& turn, Open* open) {
  const auto stream = static_cast<cudaStream_t>(call.stream);
  if (turn.number == 0) {
    result_check_->queue(call, of, open->ways.size(),
                         [&](const cc_cuda_call& one, size_t candidate) { carry_out(one, open->ways[candidate]); });
  }
  open->timed.begin(turn.step.candidate, turn.step.round, stream);
  carry_out(call, open->ways[turn.step.candidate]);
  open->timed.end(stream);
}

void Tuner::settle(CallClass of, const Verdict& verdict, const std::vector<Way>& ways) {
  for (size_t candidate = 1; candidate < ways.size(); ++candidate) {
    if (verdict.wrong_on[candidate] < 0) continue;
    ccore::log(LogLevel::warn, "%s by %s gave another result than %s on rank %d; it is not used", text_of(of).c_str(),
               name_of(ways[candidate]).c_str(), name_of(ways[0]).c_str(), verdict.wrong_on[candidate]);
  }
  const Way winner = ways[verdict.winner];
  const double us = static_cast<double>(verdict.us[verdict.winner]);
  choose(of, winner, us, static_cast<double>(verdict.us[0]), false);
  if (kept_) kept_->keep({of, name_of(winner), us});
}

void Tuner::wait_for(int rank, const std::string& what, int64_t begin_ns) const {
  group_->require_peers();
  const int64_t waited = now_ns() - begin_ns;
  if (waited > group_->timeout_ns()) {
    throw Error(CC_ERROR_TIMEOUT, "rank " + std::to_string(rank) + " is " + std::to_string(settings_.plan.margin) +
                                      " calls of " + what + " behind, and did not come until the deadline");
  }
  if (waited < kLookNs) {
    sched_yield();
  } else {
    const timespec moment{0, 50000};
    nanosleep(&moment, nullptr);
  }
}

void Tuner::choose(CallClass of, Way way, double us, double first_us, bool kept) {
  choices_[static_cast<size_t>(of.index())].store(static_cast<uint8_t>(static_cast<int>(way) + 1),
                                                  std::memory_order_release);
  ccore::log(LogLevel::info, "%s, %s: by %s%s", text_of(of).c_str(), name_of_types(of.type), name_of(way).c_str(),
             kept ? ", as kept" : "");
  if (!rival_ || rival_->calls.chosen == nullptr) return;
  const std::string by = name_of(way);
  const cc_cuda_choice choice{
      name_of_collective(of.collective), name_of_types(of.type), of.size, by.c_str(), us, first_us, kept ? 1 : 0};
  rival_->calls.chosen(rival_->calls.context, &choice);
}

std::string Tuner::summary() const {
  std::string text;
  for (int index = 0; index < kCallClasses; ++index) {
    const uint8_t choice = choices_[static_cast<size_t>(index)].load(std::memory_order_acquire);
    if (choice == 0) continue;
    const CallClass of = class_of_index(index);
    text += std::string(text.empty() ? "" : ", ") + name_of_collective(of.collective) + " 2^" +
            std::to_string(of.size) + " " + name_of(static_cast<Way>(choice - 1));
  }
  return text;
}

std::vector<SharedRecord*> Tuner::shared_records(CallClass of) const {
  auto* const first =
      static_cast<SharedRecord*>(shared_records_.get()) + static_cast<ptrdiff_t>(of.index()) * group_->size();
  std::vector<SharedRecord*> all;
  for (int rank = 0; rank < group_->size(); ++rank) all.push_back(first + rank);
  return all;
}

}  // namespace ccore_cuda
