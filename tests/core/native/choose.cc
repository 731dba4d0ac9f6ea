// Which algorithm an operation takes, and that ranks cannot disagree about it.
#include "collectives/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cases.h"
#include "common/caches.h"
#include "common/error.h"
#include "engine/algorithm_probe.h"
#include "expect.h"

namespace test {
namespace {

using ccore::Algorithm;
using ccore::CostModel;
using ccore::Kind;
using ccore::Measured;
using ccore::Overrides;
using ccore::Shape;
using ccore::SizeGroup;
using ccore::Timing;

constexpr Shape kOneNode{4, 1, 4, 4};
constexpr Shape kSharedByTwo{2, 1, 2, 2, true};
constexpr Shape kCrossedByTwo{2, 1, 2, 2, true, false, true};
constexpr Shape kCrossedByEight{8, 1, 8, 8, true, false, true};
constexpr Shape kTwoByTwo{4, 2, 2, 2};
constexpr size_t kMiB = size_t{1} << 20;

Algorithm chosen(Kind kind, size_t bytes, const Shape& shape, const std::string& forced = "") {
  Overrides overrides;
  ccore::parse_forced("CCORE_ALGO=" + forced, forced, &overrides);
  return ccore::choose(kind, bytes, shape, overrides, CostModel());
}

void expect_error(const std::string& forced, const std::string& part) {
  try {
    chosen(Kind::all_reduce, 1, kOneNode, forced);
  } catch (const ccore::Error& error) {
    EXPECT(error.code() == CC_ERROR_INVALID_ARGUMENT, error.what());
    EXPECT(std::string(error.what()).find(part) != std::string::npos, error.what());
    return;
  }
  EXPECT(false, "accepted ", forced);
}

// Of nodes with one rank each, the wish between nodes is what runs; in 2d it is a stage.
void wishes_between_nodes() {
  constexpr Shape kFourNodes{4, 4, 1, 1};
  Overrides overrides;
  overrides.between = Algorithm::double_tree;
  const auto taken = [&](Kind kind, size_t bytes, const Shape& shape) {
    return ccore::choose(kind, bytes, shape, overrides, CostModel());
  };
  EXPECT(taken(Kind::all_reduce, kMiB, kFourNodes) == Algorithm::double_tree, "four nodes");
  EXPECT(taken(Kind::all_reduce, 64, kFourNodes) == chosen(Kind::all_reduce, 64, kFourNodes), "little data");
  EXPECT(taken(Kind::broadcast, kMiB, kFourNodes) == chosen(Kind::broadcast, kMiB, kFourNodes), "another collective");
  EXPECT(taken(Kind::all_reduce, kMiB, kOneNode) == chosen(Kind::all_reduce, kMiB, kOneNode), "one node");
  EXPECT(taken(Kind::all_reduce, kMiB, kTwoByTwo) == Algorithm::hierarchical, "two ranks on each node");
}

// A choice that is remembered is the one that would be made, whatever was asked for in between; a copy makes its own.
void remembered() {
  ccore::Chooser chooser{kCrossedByTwo, Overrides(), CostModel()};
  for (int round = 0; round < 2; ++round) {
    for (size_t bytes = 0; bytes < 3 * kMiB; bytes = bytes * 2 + 1) {
      for (const Kind kind : {Kind::all_reduce, Kind::broadcast, Kind::all_gather, Kind::reduce}) {
        EXPECT(chooser.choose(kind, bytes) == chosen(kind, bytes, kCrossedByTwo), name_of(kind), " of ", bytes);
      }
    }
  }
  ccore::Chooser wishful = chooser;
  wishful.overrides.forced[static_cast<size_t>(Kind::all_reduce)] = Algorithm::ring;
  EXPECT(wishful.choose(Kind::all_reduce, 1) == Algorithm::ring, "the copy's wish");
  EXPECT(chooser.choose(Kind::all_reduce, 1) == Algorithm::oneshot, "not the copy's wish");
  wishful = chooser;
  EXPECT(wishful.choose(Kind::all_reduce, 1) == Algorithm::oneshot, "no wish any more");
}

void latency_for_little_and_bytes_for_much() {
  for (const Shape& shape : {kOneNode, kTwoByTwo}) {
    EXPECT(chosen(Kind::all_reduce, 64, shape) == Algorithm::doubling, "64 bytes");
    EXPECT(chosen(Kind::broadcast, 64, shape) == Algorithm::tree, "64 bytes");
    EXPECT(chosen(Kind::broadcast, 16 * kMiB, shape) == Algorithm::chain, "16 MiB");
    EXPECT(chosen(Kind::all_reduce, 16 * kMiB, shape) != Algorithm::doubling, "16 MiB");
  }
}

void shared_memory() {
  EXPECT(chosen(Kind::all_reduce, 64, kSharedByTwo) == Algorithm::oneshot, "64 bytes");
  EXPECT(chosen(Kind::all_reduce, 16 * kMiB, kSharedByTwo) == Algorithm::twoshot, "16 MiB");
  EXPECT(chosen(Kind::all_reduce, 64, kCrossedByTwo) == Algorithm::oneshot, "64 bytes");
  EXPECT(chosen(Kind::all_reduce, kMiB, kCrossedByTwo) == Algorithm::cma, "1 MiB");
  EXPECT(chosen(Kind::all_reduce, kMiB, kCrossedByTwo, "all_reduce:twoshot") == Algorithm::twoshot, "forced");
  EXPECT(chosen(Kind::all_reduce, kMiB, kSharedByTwo, "all_reduce:cma") == Algorithm::twoshot, "it may not");
  EXPECT(chosen(Kind::all_reduce, 64, kSharedByTwo, "all_reduce:ring") == Algorithm::ring, "forced");
  EXPECT(chosen(Kind::all_reduce, 64, kTwoByTwo, "all_reduce:oneshot") == Algorithm::doubling, "it cannot run");
}

// Of the siblings: one meeting for little, the kernel's copy for much that still fits the caches.
void siblings_in_shared_memory() {
  for (const Kind kind : {Kind::broadcast, Kind::all_gather, Kind::all_gatherv, Kind::reduce_scatter, Kind::all_to_all,
                          Kind::reduce, Kind::gather, Kind::scatter}) {
    for (const Shape& shape : {kSharedByTwo, kCrossedByTwo, Shape{8, 1, 8, 8, true, false, true}}) {
      EXPECT(chosen(kind, 64, shape) == Algorithm::oneshot, name_of(kind), " of 64 bytes");
    }
    const Algorithm over_links = chosen(kind, kMiB, kOneNode);
    const std::string forced = std::string(name_of(kind)) + ":" + name_of(over_links);
    EXPECT(chosen(kind, kMiB, kCrossedByTwo, forced) == over_links, forced);
    EXPECT(chosen(kind, kMiB, kOneNode, std::string(name_of(kind)) + ":cma") == over_links, "it may not");
  }
  for (const Kind kind : {Kind::all_gather, Kind::reduce_scatter, Kind::all_to_all, Kind::gather, Kind::scatter}) {
    EXPECT(chosen(kind, kMiB, kSharedByTwo) == Algorithm::oneshot, name_of(kind), " of 1 MiB through slots");
    EXPECT(chosen(kind, kMiB, kCrossedByTwo) == Algorithm::cma, name_of(kind), " of 1 MiB");
  }
  for (const Kind kind : {Kind::all_gather, Kind::gather}) {
    EXPECT(chosen(kind, 16 * kMiB, kCrossedByTwo) == Algorithm::cma, name_of(kind), " of which a rank stores 8 MiB");
    EXPECT(chosen(kind, 64 * kMiB, kCrossedByTwo) == Algorithm::oneshot, name_of(kind), " past the caches");
  }
  // More ranks copy to or from the root at once, or reduce, than one could write and read slots.
  EXPECT(chosen(Kind::all_to_all, 8 * kMiB, kCrossedByEight) == Algorithm::cma, "1 MiB from each of eight");
  for (const Kind kind : {Kind::reduce, Kind::reduce_scatter, Kind::gather, Kind::scatter}) {
    EXPECT(chosen(kind, 4 * kMiB, kCrossedByEight) == Algorithm::cma, name_of(kind), " of 4 MiB among eight");
  }
  EXPECT(chosen(Kind::all_reduce, 4 * kMiB, kCrossedByEight) == Algorithm::twoshot, "all write to all");
  EXPECT(chosen(Kind::all_to_allv, 64, kCrossedByTwo) == Algorithm::pairwise, "whose sizes only pairs know");
}

// Whom the user has told what links carry, they are used as that says, for as much data as 2d would need.
void known_links() {
  Shape known = kTwoByTwo;
  known.linked = true;
  EXPECT(chosen(Kind::all_reduce, 16 * kMiB, known) == Algorithm::n_trees, "16 MiB");
  EXPECT(chosen(Kind::all_reduce, 64, known) == Algorithm::doubling, "64 bytes");
  EXPECT(chosen(Kind::all_reduce, 16 * kMiB, known, "all_reduce:ring") == Algorithm::ring, "forced");
  EXPECT(chosen(Kind::all_reduce, 16 * kMiB, kOneNode, "all_reduce:n_trees") == Algorithm::n_trees, "stars");
  EXPECT(chosen(Kind::all_reduce, 16 * kMiB, kOneNode) != Algorithm::n_trees, "not known");
}

void wishes() {
  EXPECT(chosen(Kind::all_reduce, 64, kOneNode, "all_reduce:ring") == Algorithm::ring, "forced");
  EXPECT(chosen(Kind::broadcast, 64, kOneNode, "all_reduce:ring") == Algorithm::tree, "of another collective");
  EXPECT(chosen(Kind::broadcast, 64, kOneNode, "all_reduce:ring,broadcast:chain") == Algorithm::chain, "two");
  expect_error("all_reduce:rong", "all_reduce has no algorithm 'rong'; it has oneshot, twoshot, cma, doubling, ring");
  expect_error("allreduce:ring", "no collective is called 'allreduce'; there are all_reduce, broadcast");
  expect_error("ring", "expected collective:algorithm");
}

// The model must not make an operation cheaper by making it larger, nor must times that a loaded machine has shown.
void costs_grow(const CostModel& model) {
  for (const Shape& shape : {kOneNode, kSharedByTwo, kCrossedByTwo, kTwoByTwo, Shape{7, 3, 1, 3}, Shape{64, 8, 8, 8}}) {
    for (int number = 1; number < ccore::kKinds; ++number) {
      const auto kind = static_cast<Kind>(number);
      for (const Algorithm algorithm : ccore::algorithms_of(kind, shape)) {
        double before = 0;
        for (size_t bytes = 1; bytes < (size_t{1} << 34); bytes *= 2) {
          const double us = estimated_us(kind, algorithm, bytes, shape, model);
          EXPECT(us > 0 && us >= before, name_of(kind), " ", name_of(algorithm), " of ", bytes, " bytes: ", us);
          before = us;
        }
      }
    }
  }
}

// A time for each point of a plan: `us` of an algorithm, and a share of its bytes.
template <typename Us>
std::vector<Timing> timed(Kind kind, SizeGroup group, const Shape& shape, Us us) {
  std::vector<Timing> timings;
  for (const ccore::ProbePoint& point : ccore::probe_plan(kind, group, shape)) {
    Timing timing;
    timing.kind = static_cast<uint8_t>(kind);
    timing.algorithm = static_cast<int8_t>(point.algorithm);
    timing.way = point.way;
    timing.bytes = static_cast<uint32_t>(point.bytes);
    timing.us = us(point);
    timings.push_back(timing);
  }
  return timings;
}

Algorithm chosen_of(const Measured& measured, Kind kind, size_t bytes, const Shape& shape) {
  CostModel model;
  model.measured = &measured;
  return ccore::choose(kind, bytes, shape, Overrides(), model);
}

// Two machines with other figures get other choices, whatever the built-in ones say.
void measured_times_decide() {
  const auto cost = [](double call_us, double per_kib, double slots_per_kib) {
    return [=](const ccore::ProbePoint& point) {
      const double kib = static_cast<double>(point.bytes) / 1024;
      if (point.algorithm == Algorithm::cma) return static_cast<float>(call_us + per_kib * kib);
      const bool once = point.algorithm == Algorithm::oneshot;
      return static_cast<float>((once ? 0.3 : 0.6) + (once ? 2 : 1) * slots_per_kib * kib);
    };
  };
  Measured slow_kernel;
  slow_kernel.put(timed(Kind::all_reduce, SizeGroup::little, kCrossedByTwo, cost(8, 0.1, 0.05)), 2);
  Measured fast_kernel;
  fast_kernel.put(timed(Kind::all_reduce, SizeGroup::little, kCrossedByTwo, cost(2, 0.02, 0.05)), 2);
  EXPECT(chosen(Kind::all_reduce, kMiB, kCrossedByTwo) == Algorithm::cma, "by the built-in figures");
  EXPECT(chosen_of(slow_kernel, Kind::all_reduce, kMiB, kCrossedByTwo) == Algorithm::twoshot, "1 MiB");
  EXPECT(chosen_of(slow_kernel, Kind::all_reduce, 64 * kMiB, kCrossedByTwo) == Algorithm::twoshot, "beyond the last");
  EXPECT(chosen_of(fast_kernel, Kind::all_reduce, 64 * 1024, kCrossedByTwo) == Algorithm::cma, "64 KiB");
  EXPECT(chosen_of(fast_kernel, Kind::all_reduce, 16 * 1024, kCrossedByTwo) == Algorithm::twoshot, "16 KiB");
  for (const Measured* machine : {&slow_kernel, &fast_kernel}) {
    EXPECT(chosen_of(*machine, Kind::all_reduce, 64, kCrossedByTwo) == Algorithm::oneshot, "below the first");
    EXPECT(chosen_of(*machine, Kind::broadcast, 2 * kMiB, kCrossedByTwo) ==
               chosen(Kind::broadcast, 2 * kMiB, kCrossedByTwo),
           "what is not measured is estimated");
  }
  // Not the algorithm of a rank that may not have the kernel copy, nor one that adds in another order.
  EXPECT(chosen_of(fast_kernel, Kind::all_reduce, kMiB, kSharedByTwo) == Algorithm::twoshot, "no copies");
  Measured over_links;
  const Shape two_by_sockets{2, 1, 2, 2, false, false, false, true};
  over_links.put(
      timed(Kind::all_reduce, SizeGroup::little, two_by_sockets,
            [](const ccore::ProbePoint& point) {
              const double bytes = static_cast<double>(point.bytes);
              return static_cast<float>(point.algorithm == Algorithm::ring ? 20 + bytes * 2e-4 : 10 + bytes * 2.5e-4);
            }),
      2);
  EXPECT(chosen_of(over_links, Kind::all_reduce, 128 * 1024, two_by_sockets) == Algorithm::doubling, "128 KiB");
  EXPECT(chosen_of(over_links, Kind::all_reduce, kMiB, two_by_sockets) == Algorithm::ring, "1 MiB");
}

// Of more than two ranks over links only algorithms that make the same sums are measured, and only these are swapped.
void measured_over_links_of_several() {
  constexpr size_t kKiB = 1024;
  constexpr Shape kThreeNodes{3, 3, 1, 1};
  for (const Algorithm fast : {Algorithm::doubling, Algorithm::halving}) {
    const auto us = [&](const ccore::ProbePoint& point) {
      return static_cast<float>(point.bytes) * (point.algorithm == fast ? 1e-3F : 2e-3F);
    };
    for (const Shape& shape : {kTwoByTwo, kThreeNodes}) {
      Measured measured;
      measured.put(timed(Kind::all_reduce, SizeGroup::little, shape, us), shape.nranks);
      EXPECT(!measured.timings().empty(), "measured");
      for (const size_t bytes : {4 * kKiB, 32 * kKiB, 64 * kKiB, 128 * kKiB, 16 * kMiB}) {
        const Algorithm built_in = chosen(Kind::all_reduce, bytes, shape);
        const bool swapped = bytes <= 64 * kKiB && (built_in == Algorithm::doubling || built_in == Algorithm::halving);
        EXPECT(chosen_of(measured, Kind::all_reduce, bytes, shape) == (swapped ? fast : built_in), bytes, " bytes");
      }
    }
  }
}

// Between nodes a ring sends as many bytes as a butterfly, to one neighbour; docs/performance-log.md has the times.
void much_goes_by_rings_between_nodes() {
  for (const int nodes : {4, 8}) {
    const Shape shape{2 * nodes, nodes, 2, 2};
    const auto between = [&](size_t bytes) { return choose_between(bytes, shape, Overrides(), CostModel()); };
    for (size_t bytes = kMiB; bytes <= 256 * kMiB; bytes *= 4) {
      EXPECT(between(bytes) == Algorithm::ring, name_of(between(bytes)), " between ", nodes, ", ", bytes, " bytes");
    }
    EXPECT(nodes == 4 || between(kMiB / 4) == Algorithm::halving, name_of(between(kMiB / 4)), " for 256 KiB");
  }
}

// Times that no clock shows are not used, nor is what was measured together with them.
void implausible_times_are_dropped() {
  const float wrong[] = {0, -1, std::nanf(""), std::numeric_limits<float>::infinity(), 1e-6F, 1e12F};
  for (const float us : wrong) {
    for (size_t at = 0; at < 11; ++at) {
      size_t number = 0;
      Measured measured;
      measured.put(timed(Kind::all_reduce, SizeGroup::little, kCrossedByTwo,
                         [&](const ccore::ProbePoint&) { return number++ == at ? us : 10.0F; }),
                   2);
      EXPECT(number == 11 && measured.timings().empty(), "point ", at, " of ", us, " us");
      for (const size_t bytes : {size_t{64}, 64 * 1024 * size_t{1}, kMiB, 64 * kMiB}) {
        EXPECT(chosen_of(measured, Kind::all_reduce, bytes, kCrossedByTwo) ==
                   chosen(Kind::all_reduce, bytes, kCrossedByTwo),
               "the built-in figures decide");
      }
    }
  }
  // The rest of what is known is not harmed, and a second try replaces the first.
  Measured measured;
  const auto ten = [](const ccore::ProbePoint&) { return 10.0F; };
  measured.put(timed(Kind::reduce, SizeGroup::little, kCrossedByTwo, ten), 2);
  const size_t before = measured.timings().size();
  measured.put(timed(Kind::all_reduce, SizeGroup::much, kCrossedByTwo, [](const ccore::ProbePoint&) { return 0.0F; }),
               2);
  EXPECT(measured.timings().size() == before && measured.has(Kind::reduce), "of another collective");
  for (int round = 0; round < 2; ++round) {
    measured.put(timed(Kind::reduce, SizeGroup::little, kCrossedByTwo, ten), 2);
    EXPECT(measured.timings().size() == before, "once is enough");
  }
}

// From where results are written past the caches, as a machine with small caches and one with large ones measure it.
void caches_are_measured() {
  const auto with = [](float ordinary_much, float ordinary_vast) {
    Measured measured;
    for (const SizeGroup group : {SizeGroup::much, SizeGroup::vast}) {
      measured.put(timed(Kind::all_reduce, group, kCrossedByTwo,
                         [&](const ccore::ProbePoint& point) {
                           if (point.way == ccore::Way::past_caches) return group == SizeGroup::much ? 300.0F : 1200.0F;
                           return group == SizeGroup::much ? ordinary_much : ordinary_vast;
                         }),
                   2);
    }
    return measured.past_caches_bytes(Kind::all_reduce);
  };
  EXPECT(Measured().past_caches_bytes(Kind::all_reduce) == ccore::kPastCachesBytes, "not measured");
  EXPECT(with(400, 1800) == ccore::kPastCachesBytes, "small caches");
  EXPECT(with(200, 1800) == ccore::kVastBytes, "4 MiB fit");
  EXPECT(with(200, 1000) == std::numeric_limits<size_t>::max(), "16 MiB fit");
}

// Every point of a plan is in the group that it is for, and there is a choice.
void plans() {
  for (const Shape& shape : {kSharedByTwo, kCrossedByTwo, kCrossedByEight}) {
    for (const Kind kind : {Kind::all_reduce, Kind::reduce, Kind::broadcast, Kind::all_gather, Kind::reduce_scatter,
                            Kind::gather, Kind::scatter, Kind::all_to_all}) {
      for (const SizeGroup group : {SizeGroup::little, SizeGroup::much, SizeGroup::vast}) {
        const auto plan = ccore::probe_plan(kind, group, shape);
        EXPECT(plan.size() >= 2 && plan.front().algorithm != Algorithm::cma, name_of(kind));
        for (const ccore::ProbePoint& point : plan) {
          EXPECT(ccore::size_group(point.bytes) == group && point.kind == kind, name_of(kind), " ", point.bytes);
          EXPECT(ccore::algorithms_of(kind, shape).has(point.algorithm), name_of(point.algorithm));
          const bool adds = kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
          EXPECT(!adds || shape.nranks == 2 || ccore::in_shared_memory(point.algorithm), "another order of adding");
        }
      }
    }
  }
  EXPECT(ccore::probe_plan(Kind::all_to_allv, SizeGroup::little, kOneNode).empty(), "nothing to choose");
  EXPECT(ccore::probe_plan(Kind::all_reduce, SizeGroup::much, kTwoByTwo).empty(), "too much for a slow line");
}

void shapes() {
  const Shape shape = ccore::shape_of(ccore::places_of({"a", "b", "a", "a", "c"}));
  EXPECT(shape.nranks == 5 && shape.nodes == 3 && shape.least_local == 1 && shape.most_local == 3, "shape");
  EXPECT(ccore::emulated_node_key("host", 3, 2) == "host#1" && ccore::emulated_node_key("host", 3, 0) == "host",
         "emulated nodes");
}

}  // namespace

void choose() {
  latency_for_little_and_bytes_for_much();
  shared_memory();
  siblings_in_shared_memory();
  known_links();
  wishes();
  remembered();
  wishes_between_nodes();
  costs_grow(CostModel());
  Measured uneven;
  uneven.put(timed(Kind::all_reduce, SizeGroup::little, kCrossedByTwo,
                   [](const ccore::ProbePoint& point) { return point.bytes < 65536 ? 50.0F : 20.0F; }),
             2);
  CostModel measured;
  measured.measured = &uneven;
  costs_grow(measured);
  measured_times_decide();
  measured_over_links_of_several();
  much_goes_by_rings_between_nodes();
  implausible_times_are_dropped();
  caches_are_measured();
  plans();
  shapes();
}

}  // namespace test
