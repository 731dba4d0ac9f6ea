// Which algorithm an operation takes, and that ranks cannot disagree about it.
#include "collectives/choose.h"

#include <algorithm>
#include <string>

#include "cases.h"
#include "common/error.h"
#include "expect.h"

namespace test {
namespace {

using ccore::Algorithm;
using ccore::CostModel;
using ccore::Kind;
using ccore::Overrides;
using ccore::Shape;

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

// The model must not make an operation cheaper by making it larger.
void costs_grow() {
  for (const Shape& shape : {kOneNode, kSharedByTwo, kCrossedByTwo, kTwoByTwo, Shape{7, 3, 1, 3}, Shape{64, 8, 8, 8}}) {
    for (int number = 1; number < ccore::kKinds; ++number) {
      const auto kind = static_cast<Kind>(number);
      for (const Algorithm algorithm : ccore::algorithms_of(kind, shape)) {
        double before = 0;
        for (size_t bytes = 1; bytes < (size_t{1} << 34); bytes *= 2) {
          const double us = estimated_us(kind, algorithm, bytes, shape, ccore::CostModel());
          EXPECT(us > 0 && us >= before, name_of(kind), " ", name_of(algorithm), " of ", bytes, " bytes: ", us);
          before = us;
        }
      }
    }
  }
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
  costs_grow();
  shapes();
}

}  // namespace test
