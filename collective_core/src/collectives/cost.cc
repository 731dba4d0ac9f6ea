#include "collectives/cost.h"

#include <algorithm>
#include <optional>

namespace ccore {
namespace {

int log2_up(int n) {
  int rounds = 0;
  while ((1 << rounds) < n) ++rounds;
  return rounds;
}

bool power_of_two(int n) { return (n & (n - 1)) == 0; }

// Of algorithms that do not look at nodes: their slowest link sets the pace, and if every rank of a node sends
// to other nodes at once, they share its interface.
struct Flat {
  double p;
  double rounds;  // log2(p), up
  double bytes;
  double alpha;
  double overhead;
  double beta;         // neighbours only: one rank of a node at a time sends out of it
  double shared_beta;  // all ranks of a node send out of it
  double gamma;
};

Flat flat(double bytes, const Shape& shape, const CostModel& model) {
  const LinkCost& link = shape.nodes > 1 || shape.socketed ? model.inter : model.intra;
  const double sharing = shape.nodes > 1 ? shape.most_local : 1;
  return Flat{static_cast<double>(shape.nranks),
              static_cast<double>(log2_up(shape.nranks)),
              bytes,
              link.alpha_us,
              link.overhead_us,
              link.beta_us_per_byte,
              link.beta_us_per_byte * sharing,
              model.gamma_us_per_byte};
}

// The slowest of three stages, and a share of the others for the chunk that fills the pipeline.
double hierarchical_us(const Shape& shape, double bytes, const CostModel& model) {
  const double nodes = shape.nodes;
  const double local = shape.most_local;
  const double rails = shape.least_local;
  const double chunks = std::clamp(bytes / nodes / rails / (128 * 1024), 1.0, 32.0);
  const double local_part = (local - 1) / local * bytes;
  const double scatter = local_part * (model.intra.beta_us_per_byte + model.gamma_us_per_byte);
  const double gather = local_part * model.intra.beta_us_per_byte;
  const double between =
      (nodes - 1) / nodes * bytes * (2 * model.inter.beta_us_per_byte + model.gamma_us_per_byte / rails);
  const double stages = scatter + gather + between;
  const double slowest = std::max(scatter + gather, between);  // the first and the last share the links
  return slowest + (stages - slowest) / chunks + 2 * (local - 1) * model.intra.alpha_us +
         2 * (nodes - 1) * model.inter.alpha_us;
}

double all_reduce_us(Algorithm algorithm, const Shape& shape, const Flat& f, const CostModel& model) {
  const SharedCost& shared = model.shared;
  const double part = (f.p - 1) / f.p * f.bytes;
  if (algorithm == Algorithm::oneshot) {
    return shared.alpha_us + f.bytes * shared.copy_us_per_byte + (f.p - 1) * f.bytes * shared.reduce_us_per_byte;
  }
  if (algorithm == Algorithm::twoshot) {
    return 2 * shared.alpha_us + part * (2 * shared.copy_us_per_byte + shared.reduce_us_per_byte);
  }
  if (algorithm == Algorithm::cma) {
    const double us_per_byte = model.cross.us_per_byte * (1 + model.cross.crowding * (f.p - 2));
    return 2 * shared.alpha_us + 3 * (f.p - 1) * model.cross.call_us + part * us_per_byte;
  }
  if (algorithm == Algorithm::doubling) {
    const double extra = power_of_two(shape.nranks) ? 0 : 1;
    return (f.rounds + extra) * (f.alpha + f.bytes * f.shared_beta) + f.rounds * f.bytes * f.gamma;
  }
  if (algorithm == Algorithm::halving) {
    // The last exchanges, in which all ranks of a node send to others, are the smallest; extra ranks move all twice.
    const double extra = power_of_two(shape.nranks) ? 0 : 2 * f.bytes * f.beta;
    // The partner changes from step to step, and a link is idle until both of its ends have left their last one.
    const double idle = shape.nodes > 2 ? 1.2 : 1;
    return 2 * f.rounds * f.alpha + 2 * part * f.beta * idle + extra + part * f.gamma;
  }
  // Of stars; other trees are only as good as what the user says of the links.
  if (algorithm == Algorithm::direct || algorithm == Algorithm::n_trees) {
    // All of a node send to others all the time, and several to one: a tenth is lost to crowding, and more where several
    // nodes send to one through the port of a switch. A rank both sends and receives each of its messages after the first.
    const double crowding = shape.nodes > 2 ? 1 + 0.25 * (shape.nodes - 2) : shape.nranks > 2 ? 1.1 : 1;
    return 2 * (f.alpha + 2 * (f.p - 2) * f.overhead) + 2 * part * f.shared_beta * crowding + part * f.gamma;
  }
  if (algorithm == Algorithm::double_tree) {
    const double sent = std::min(4.0, f.p) / 2 * f.bytes;
    return 2 * f.rounds * (f.alpha + f.overhead) + sent * f.beta + f.bytes * f.gamma;
  }
  return 2 * (f.p - 1) * f.alpha + 2 * part * f.beta + part * f.gamma;  // ring
}

// Inside a node, through slots in one meeting: what must be written before it is read, and what is read, unless
// different ranks do these at the same time.
double oneshot_us(Kind kind, const Flat& f, const SharedCost& shared) {
  const double part = (f.p - 1) / f.p * f.bytes;
  const double copy = shared.copy_us_per_byte;
  switch (kind) {
    case Kind::broadcast:
      return shared.alpha_us + f.bytes * copy;
    case Kind::reduce:
      return shared.alpha_us + (f.p - 1) * f.bytes * shared.reduce_us_per_byte;
    case Kind::reduce_scatter:
      return shared.alpha_us + part * (copy + shared.reduce_us_per_byte);
    case Kind::all_to_all:
      return shared.alpha_us + 2 * part / f.p * copy;
    default:  // all_gather, gather; scatter is the same backwards
      return shared.alpha_us + f.bytes / f.p * copy + part * copy;
  }
}

// Of what a byte costs that is read, reduced and written by the kernel: one that is reduced and stays with the rank, one
// that a rank adds to the root's result, and one that is only moved. Where one rank has the kernel store more than the
// caches hold, that costs as much again, as its stores fetch what they overwrite. So that slots are overtaken where 2, 3,
// 4 and 8 ranks on pinned cores of two Xeons showed it (docs/performance.md has the crossings).
constexpr double kKept = 1.3;
constexpr double kReturned = 0.7;
constexpr double kMoved = 0.5;
constexpr double kPastCachesFrom = 8.0 * 1024 * 1024;

// By one copy of the kernel.
double cross_us(Kind kind, const Flat& f, const CostModel& model) {
  const double part = (f.p - 1) / f.p * f.bytes;
  const double calls = (f.p - 1) * model.cross.call_us;
  const double once = model.shared.alpha_us + calls;  // with a root all others use its pages at once
  const double twice = 2 * model.shared.alpha_us + calls;
  const double byte = model.cross.us_per_byte;
  const auto past_caches = [&](double stored) { return std::max(0.0, stored - kPastCachesFrom) * byte; };
  switch (kind) {
    case Kind::broadcast:  // through slots the root does a half of the work meanwhile
      return once + f.bytes * byte * (1 + model.cross.crowding * (f.p - 2));
    case Kind::gather:
      return once + f.bytes / f.p * kMoved * byte + past_caches(f.bytes / f.p);
    case Kind::scatter:  // through slots the root alone stores it all
      return once + f.bytes / f.p * kMoved * byte;
    case Kind::reduce:
      return twice + part * (kKept + kReturned) * byte + past_caches(f.bytes);
    case Kind::reduce_scatter:
      return twice + part * kKept * byte;
    case Kind::all_to_all:
      return twice + part / f.p * kMoved * byte + past_caches(part / f.p);
    default:  // all_gather
      return twice + part * kMoved * byte + past_caches(part);
  }
}

// To or from one rank, which is the limit.
double rooted_us(Kind kind, Algorithm algorithm, const Flat& f, const SharedCost& shared) {
  const double gamma = kind == Kind::reduce ? f.gamma : 0;
  if (algorithm == Algorithm::twoshot) {
    const double part = (f.p - 1) / f.p * f.bytes;
    return 2 * shared.alpha_us + part * (2 * shared.copy_us_per_byte + shared.reduce_us_per_byte);
  }
  if (algorithm == Algorithm::tree) return f.rounds * (f.alpha + f.bytes * (f.beta + gamma));
  return (f.p - 1) * f.alpha + f.bytes * (f.beta + gamma);  // chain
}

double modelled_us(Kind kind, Algorithm algorithm, double bytes, const Shape& shape, const CostModel& model) {
  const Flat f = flat(bytes, shape, model);
  const double part = (f.p - 1) / f.p * f.bytes;
  if (kind != Kind::all_reduce && algorithm == Algorithm::oneshot) return oneshot_us(kind, f, model.shared);
  if (kind != Kind::all_reduce && algorithm == Algorithm::cma) return cross_us(kind, f, model);
  switch (kind) {
    case Kind::all_reduce:
      if (algorithm == Algorithm::hierarchical) return hierarchical_us(shape, f.bytes, model);
      return all_reduce_us(algorithm, shape, f, model);
    case Kind::broadcast:
    case Kind::reduce:
      return rooted_us(kind, algorithm, f, model.shared);
    case Kind::reduce_scatter:
      return (f.p - 1) * f.alpha + part * (f.beta + f.gamma);
    case Kind::all_gather:
    case Kind::all_gatherv:
      return (f.p - 1) * f.alpha + part * f.beta;
    case Kind::gather:
    case Kind::scatter:
      return f.alpha + (f.p - 2) * f.overhead + part * f.beta;
    case Kind::all_to_all:
    case Kind::all_to_allv:
      return f.alpha + (f.p - 2) * f.overhead + part / f.p * f.shared_beta;
    case Kind::barrier:
      return f.rounds * f.alpha;
    case Kind::transfer:
    case Kind::split:
    case Kind::finalize:
    case Kind::topk_all_reduce:
    case Kind::cpu_reduce:
    case Kind::tuning:
    case Kind::register_memory:
    case Kind::deregister_memory:
    case Kind::meeting:
      break;
  }
  return f.alpha + f.bytes * f.beta;
}

}  // namespace

double estimated_us(Kind kind, Algorithm algorithm, size_t bytes, const Shape& shape, const CostModel& model) {
  if (shape.nranks == 1) return 0;
  const auto by_model = [&](double size) { return modelled_us(kind, algorithm, size, shape, model); };
  const auto size = static_cast<double>(bytes);
  const std::optional<double> measured =
      model.measured ? model.measured->us(kind, algorithm, size, by_model) : std::nullopt;
  return measured ? *measured : by_model(size);
}

}  // namespace ccore
