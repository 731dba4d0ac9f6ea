#include "engine/tuning.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "collectives/broadcast/broadcast.h"
#include "collectives/reduce/reduce.h"
#include "common/clock.h"
#include "common/dtype.h"
#include "common/error.h"
#include "common/log.h"

namespace ccore {
namespace {

// 0: bytes are only moved; 1: reduced as they are; 2 and 3: converted to be reduced.
uint8_t dtype_class(Kind kind, cc_dtype dtype) {
  if (kind != Kind::all_reduce && kind != Kind::reduce && kind != Kind::reduce_scatter) return 0;
  if (dtype == CC_FLOAT8_E4M3 || dtype == CC_FLOAT8_E5M2) return 3;
  return dtype == CC_FLOAT16 || dtype == CC_BFLOAT16 ? 2 : 1;
}

constexpr std::array<const char*, kDtypeClassCount> kDtypeClasses = {"any", "32 and 64 bit or integer", "16-bit float",
                                                                     "8-bit float"};

// What the ranks say to each other in front of an operation. Its headers have that operation's call: of ranks that called
// different ones, those for which an agreement is due are in one, and the others are not.
class LinkCouncil : public Council {
 public:
  explicit LinkCouncil(const Context& context) : context_(context) {
    context_.operation.target = static_cast<int32_t>(context.operation.kind);
    context_.operation.kind = Kind::tuning;
    context_.operation.tag = kTunerAgrees;
  }

  bool leads() const override { return context_.rank == 0; }

  void collect_worst(std::vector<double>* figures) override {
    context_.operation.shape = figures->size();
    std::vector<double> worst(*figures);
    reduce_tree(context_, figures->data(), worst.data(), figures->size(), CC_FLOAT64, CC_MAX, 0);
    if (leads()) *figures = worst;
  }

  void follow(Decision* decision) override { broadcast_tree(context_, decision, decision, sizeof *decision, 0); }

 private:
  Context context_;
};

}  // namespace

uint64_t data_bytes(const Operation& operation, int nranks) {
  const auto p = static_cast<uint64_t>(nranks);
  const uint64_t bytes = operation.count * dtype_size(static_cast<cc_dtype>(operation.dtype));
  switch (operation.kind) {
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::gather:
    case Kind::scatter:
      return bytes * p;
    case Kind::all_to_all:
      return bytes * p * p;
    case Kind::all_to_allv:
      return 0;
    default:
      return bytes;
  }
}

Tuning::Tuning(const TunerSettings& settings, const Chooser* chooser)
    : settings_(settings), chooser_(chooser), active_(settings.enabled != 0), tuner_(settings, now_ns) {}

Algorithm Tuning::find_algorithm(Kind kind, const std::string& name) const {
  const Algorithm named = algorithm_of_name(name);
  return algorithms_of(kind, chooser_->shape).has(named) ? named : Algorithm::none;
}

bool Tuning::tunable(Kind kind) const {
  const auto index = static_cast<size_t>(kind);
  if (index >= static_cast<size_t>(kKinds) || chooser_->shape.nranks == 1) return false;
  const Algorithms all = algorithms_of(kind, chooser_->shape);
  return all.end() - all.begin() > 1 && !all.has(chooser_->overrides.forced[index]);
}

std::vector<Candidate> Tuning::candidates(const TunerKey& key) const {
  const auto kind = static_cast<Kind>(key.kind);
  const size_t middle = (size_t{1} << key.size_class) + (size_t{1} << key.size_class) / 2;
  const auto cost = [&](Algorithm one) {
    // Byte rings in shared memory copy more often than what shares the memory itself, and add in another order: no search
    // tries them.
    if (chooser_->shape.shared && !in_shared_memory(one)) return std::numeric_limits<double>::infinity();
    return estimated_us(kind, one, middle, chooser_->shape, chooser_->model);
  };
  const Algorithm first = choose(kind, middle, chooser_->shape, chooser_->overrides, chooser_->model);
  std::vector<Candidate> all = {Candidate{static_cast<uint32_t>(first), cost(first)}};
  for (const Algorithm one : algorithms_of(kind, chooser_->shape)) {
    const bool unwanted = one == Algorithm::hierarchical && !chooser_->overrides.allows_2d(middle);
    if (one == first || unwanted) continue;
    all.push_back(Candidate{static_cast<uint32_t>(one), cost(one)});
    // The first choice need not be what the model sees in front, and still is the one to begin with.
    all.front().cold_us = std::min(all.front().cold_us, all.back().cold_us);
  }
  return all;
}

void Tuning::begin(Context* context, Chooser* chooser) {
  Operation& operation = context->operation;
  const uint64_t bytes = data_bytes(operation, context->nranks);
  if (bytes == 0 || !tunable(operation.kind)) return;
  const TunerKey key{static_cast<uint8_t>(operation.kind), size_class(bytes),
                     dtype_class(operation.kind, static_cast<cc_dtype>(operation.dtype))};
  LinkCouncil council(*context);
  const uint32_t chosen = tuner_.begin(key, operation.sequence, &council, [&] { return candidates(key); });
  chooser->overrides.forced[static_cast<size_t>(operation.kind)] = static_cast<Algorithm>(chosen);
  operation.algorithm = chosen + 1;
}

void Tuning::end() {
  tuner_.end();
  if (tuner_.choices_made() == saved_choices_) return;
  saved_choices_ = tuner_.choices_made();
  save();
}

void Tuning::save() {
  CacheLines lines;
  for (const TunerRow& row : tuner_.rows()) {
    if (row.phase != Phase::fixed) continue;
    lines.insert(line_of(CacheEntry{name_of(static_cast<Kind>(row.key.kind)), row.key.size_class, row.key.dtype_class,
                                    name_of(static_cast<Algorithm>(row.choice)), row.us, model_}));
  }
  kept_.keep(std::move(lines));
}

std::vector<Choice> Tuning::load(const CacheIdentity& identity, const std::string& model) {
  kept_ = KeptLines("choices", identity);
  model_ = model;
  std::vector<Choice> choices;
  for (const CacheEntry& one : kept_.read("choice " + model, entry_of)) {
    const std::optional<Kind> kind = kind_of_name(one.collective);
    const Algorithm algorithm = kind ? find_algorithm(*kind, one.algorithm) : Algorithm::none;
    if (algorithm == Algorithm::none) continue;
    choices.push_back(Choice{static_cast<uint32_t>(*kind),
                             one.size_class,
                             one.dtype_class,
                             {},
                             static_cast<uint32_t>(algorithm),
                             0,
                             one.us});
  }
  log(LogLevel::info, "%zu choices are known", choices.size());
  if (!choices.empty() && settings_.cache_update_disabled) kept_ = KeptLines();
  return choices;
}

void Tuning::use(const std::vector<Choice>& choices) {
  for (const Choice& one : choices) {
    const TunerKey key{static_cast<uint8_t>(one.kind), one.size_class, one.dtype_class};
    if (tunable(static_cast<Kind>(one.kind))) tuner_.fix(key, one.algorithm, one.us);
  }
  active_ = active_ || !choices.empty();
}

void Tuning::retune() {
  active_ = true;
  tuner_.retune();
}

Choice Tuning::choice_of(const std::string& collective, uint64_t bytes, cc_dtype dtype,
                         const std::string& algorithm) const {
  const std::optional<Kind> kind = kind_of_name(collective);
  if (!kind) throw Error(CC_ERROR_INVALID_ARGUMENT, "no collective is called '" + collective + "'");
  const Algorithm found = find_algorithm(*kind, algorithm);
  if (found == Algorithm::none) {
    const std::string known = algorithms_of(*kind, chooser_->shape).names();
    throw Error(CC_ERROR_INVALID_ARGUMENT, format("%s on these ranks has no algorithm '%s'; it has %s",
                                                  collective.c_str(), algorithm.c_str(), known.c_str()));
  }
  return Choice{static_cast<uint32_t>(*kind),
                size_class(bytes),
                dtype_class(*kind, dtype),
                {},
                static_cast<uint32_t>(found),
                0,
                0};
}

Algorithm Tuning::taken_by(Kind kind, uint64_t bytes, cc_dtype dtype) const {
  uint32_t taken = 0;
  const TunerKey key{static_cast<uint8_t>(kind), size_class(bytes), dtype_class(kind, dtype)};
  const bool known = active_ && bytes > 0 && tunable(kind) && tuner_.find(key, &taken);
  return known ? static_cast<Algorithm>(taken) : Algorithm::none;
}

std::string Tuning::dump() const {
  const TunerSettings& settings = tuner_.settings();
  std::string text = format("autotune %d mode %s\n", settings.enabled, name_of(settings.mode));
  if (settings.mode == PerfMode::profile) text += format("communication %.1f %% of the time\n", 100 * tuner_.share());
  for (const TunerRow& row : tuner_.rows()) {
    text += format("%s bytes 2^%d dtypes %s: %s %s", name_of(static_cast<Kind>(row.key.kind)), row.key.size_class,
                   kDtypeClasses[row.key.dtype_class], name_of(row.phase), name_of(static_cast<Algorithm>(row.choice)));
    text += row.us > 0 ? format(" %.1f us\n", row.us) : "\n";
  }
  return text;
}

}  // namespace ccore
