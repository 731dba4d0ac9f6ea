#include "collectives/choose.h"

#include <algorithm>
#include <climits>
#include <iterator>

#include "common/env.h"
#include "common/error.h"

namespace ccore {
namespace {

// On which everything can run.
constexpr Shape kAnyShape{4, 2, 2, 2, true, true, true};

Kind kind_named(const std::string& setting, const std::string& name) {
  const std::optional<Kind> named = kind_of_name(name);
  if (named && !algorithms_of(*named, kAnyShape).empty()) return *named;
  std::string known;
  for (int kind = 1; kind < kKinds; ++kind) {
    const auto one = static_cast<Kind>(kind);
    if (!algorithms_of(one, kAnyShape).empty()) known += (known.empty() ? "" : ", ") + std::string(name_of(one));
  }
  throw Error(CC_ERROR_INVALID_ARGUMENT,
              format("%s: no collective is called '%s'; there are %s", setting.c_str(), name.c_str(), known.c_str()));
}

Algorithm algorithm_named(const std::string& setting, Kind kind, const std::string& name) {
  const Algorithm named = algorithm_of_name(name);
  const Algorithms all = algorithms_of(kind, kAnyShape);
  if (all.has(named)) return named;
  throw Error(CC_ERROR_INVALID_ARGUMENT, format("%s: %s has no algorithm '%s'; it has %s", setting.c_str(),
                                                name_of(kind), name.c_str(), all.names().c_str()));
}

}  // namespace

Overrides::Overrides() { std::fill(std::begin(forced), std::end(forced), Algorithm::none); }

bool Overrides::operator==(const Overrides& other) const {
  return between == other.between && intra_size == other.intra_size && hierarchical == other.hierarchical &&
         hierarchical_threshold == other.hierarchical_threshold && hierarchical_limit == other.hierarchical_limit &&
         std::equal(std::begin(forced), std::end(forced), other.forced);
}

void parse_forced(const std::string& setting, const std::string& text, Overrides* overrides) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    const size_t colon = one.find(':');
    if (colon == std::string::npos) {
      throw Error(CC_ERROR_INVALID_ARGUMENT,
                  format("%s: expected collective:algorithm, as in all_reduce:ring,broadcast:tree, not '%s'",
                         setting.c_str(), one.c_str()));
    }
    const Kind kind = kind_named(setting, one.substr(0, colon));
    overrides->forced[static_cast<size_t>(kind)] = algorithm_named(setting, kind, one.substr(colon + 1));
    begin = end + 1;
  }
}

namespace {

// The names of the literature.
Algorithm between_from_env() {
  const EnvSetting given = env_setting("CCORE_2D_BETWEEN");
  if (given.text.empty()) return Algorithm::none;
  if (given.text == "ring") return Algorithm::ring;
  if (given.text == "ps") return Algorithm::direct;
  if (given.text == "tree") return Algorithm::double_tree;
  if (given.text == "butterfly") return Algorithm::halving;
  throw Error(CC_ERROR_INVALID_ARGUMENT, given.name + "=" + given.text + ": expected ring, ps, tree or butterfly");
}

}  // namespace

Overrides overrides_from_env() {
  Overrides overrides;
  const EnvSetting algorithms = env_setting("CCORE_ALGO");
  parse_forced(algorithms.name + "=" + algorithms.text, algorithms.text, &overrides);
  overrides.between = between_from_env();
  overrides.intra_size = static_cast<int32_t>(env_integer("CCORE_INTRA_SIZE", 0, 0, INT_MAX));
  overrides.hierarchical = static_cast<int32_t>(env_integer("CCORE_2D", overrides.hierarchical, 0, 1));
  overrides.hierarchical_threshold =
      env_integer("CCORE_HIERARCHICAL_THRESHOLD", overrides.hierarchical_threshold, 0, INT64_MAX);
  overrides.hierarchical_limit = env_integer("CCORE_2D_LIMIT", overrides.hierarchical_limit, 0, INT64_MAX);
  return overrides;
}

namespace {

// The faster, as measured, of an algorithm and the one that makes the same sums: what was measured must not decide which
// bits a sum has.
Algorithm faster_of_same_sums(Algorithm named, size_t bytes, const Shape& shape, const CostModel& model) {
  if ((named != Algorithm::doubling && named != Algorithm::halving) || bytes > kMostMeasuredOverLinks) return named;
  const Algorithm other = named == Algorithm::doubling ? Algorithm::halving : Algorithm::doubling;
  const auto us = [&](Algorithm one) { return estimated_us(Kind::all_reduce, one, bytes, shape, model); };
  const bool both = model.measured->range_of(Kind::all_reduce, named).last > 0 &&
                    model.measured->range_of(Kind::all_reduce, other).last > 0;
  return both && us(other) < us(named) ? other : named;
}

}  // namespace

Algorithm choose(Kind kind, size_t bytes, const Shape& shape, const Overrides& overrides, const CostModel& model) {
  if (model.measured && kind == Kind::all_reduce && over_links_of_several(shape)) {
    CostModel built_in = model;
    built_in.measured = nullptr;
    return faster_of_same_sums(choose(kind, bytes, shape, overrides, built_in), bytes, shape, model);
  }
  const Algorithms candidates = algorithms_of(kind, shape);
  const Algorithm forced = overrides.forced[static_cast<size_t>(kind)];
  if (candidates.has(forced)) return forced;
  const bool enough = bytes >= static_cast<size_t>(overrides.hierarchical_threshold);
  if (candidates.has(Algorithm::n_trees) && shape.linked && enough) return Algorithm::n_trees;
  if (candidates.has(Algorithm::hierarchical) && overrides.allows_2d(bytes) && enough) return Algorithm::hierarchical;
  const bool between_nodes = shape.nodes > 1 && shape.most_local == 1 && kind == Kind::all_reduce;
  if (between_nodes && enough && candidates.has(overrides.between)) return overrides.between;
  const auto range_of = [&](Algorithm one) {
    return model.measured ? model.measured->range_of(kind, one) : Measured::Range();
  };
  size_t measured_to = 0;
  for (const Algorithm one : candidates) measured_to = std::max(measured_to, range_of(one).last);
  Algorithm best = Algorithm::none;
  double least_us = 0;
  for (const Algorithm one : candidates) {
    // What these two have over the others is not in the model.
    if (one == Algorithm::hierarchical || one == Algorithm::n_trees) continue;
    const Measured::Range range = range_of(one);
    // What a model says, or what caches that hold less than this let one hope for, does not beat what a clock has shown.
    if (measured_to > 0 && range.last < std::min(bytes, measured_to)) continue;
    if (measured_to > 0 && range.last == 0) continue;
    // Byte rings in the same memory copy more often, and add in another order: they have to prove themselves.
    if (candidates.has(Algorithm::oneshot) && !in_shared_memory(one) && (range.last == 0 || bytes < range.first))
      continue;
    const double us = estimated_us(kind, one, bytes, shape, model);
    if (best != Algorithm::none && us >= least_us) continue;
    best = one;
    least_us = us;
  }
  return best;
}

Algorithm choose_between(size_t bytes, const Shape& shape, const Overrides& overrides, const CostModel& model) {
  const int rails = shape.least_local;
  Shape of_rail;
  of_rail.nranks = of_rail.nodes = shape.nodes;
  CostModel shared = model;
  shared.inter.beta_us_per_byte *= rails;
  shared.measured = nullptr;  // that is of other ranks
  Overrides wishes = overrides;
  wishes.forced[static_cast<size_t>(Kind::all_reduce)] = Algorithm::none;
  wishes.hierarchical_threshold = 0;
  return choose(Kind::all_reduce, bytes / static_cast<size_t>(rails), of_rail, wishes, shared);
}

}  // namespace ccore
