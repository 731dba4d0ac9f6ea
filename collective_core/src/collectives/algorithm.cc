#include "collectives/algorithm.h"

#include <algorithm>

namespace ccore {

const char* name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::none:
      break;
    case Algorithm::oneshot:
      return "oneshot";
    case Algorithm::twoshot:
      return "twoshot";
    case Algorithm::ring:
      return "ring";
    case Algorithm::doubling:
      return "doubling";
    case Algorithm::chain:
      return "chain";
    case Algorithm::tree:
      return "tree";
    case Algorithm::direct:
      return "direct";
    case Algorithm::pairwise:
      return "pairwise";
    case Algorithm::dissemination:
      return "dissemination";
    case Algorithm::hierarchical:
      return "2d";
    case Algorithm::halving:
      return "halving";
    case Algorithm::double_tree:
      return "double_tree";
    case Algorithm::n_trees:
      return "n_trees";
    case Algorithm::cma:
      return "cma";
  }
  return "none";
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::all_reduce:
      return "all_reduce";
    case Kind::broadcast:
      return "broadcast";
    case Kind::all_gather:
      return "all_gather";
    case Kind::reduce_scatter:
      return "reduce_scatter";
    case Kind::barrier:
      return "barrier";
    case Kind::transfer:
      return "transfer";
    case Kind::reduce:
      return "reduce";
    case Kind::gather:
      return "gather";
    case Kind::scatter:
      return "scatter";
    case Kind::all_to_all:
      return "all_to_all";
    case Kind::all_to_allv:
      return "all_to_allv";
    case Kind::all_gatherv:
      return "all_gatherv";
    case Kind::split:
      return "split";
    case Kind::finalize:
      return "finalize";
    case Kind::topk_all_reduce:
      return "topk_all_reduce";
    case Kind::cpu_reduce:
      return "cpu_reduce";
    case Kind::tuning:
      return "tuning";
    case Kind::register_memory:
      return "mem_register";
    case Kind::deregister_memory:
      return "mem_deregister";
    case Kind::meeting:
      return "meeting";
  }
  return "unknown";
}

std::optional<Kind> kind_of_name(const std::string& name) {
  for (int kind = 1; kind < kKinds; ++kind) {
    if (name == name_of(static_cast<Kind>(kind))) return static_cast<Kind>(kind);
  }
  return std::nullopt;
}

Algorithm algorithm_of_name(const std::string& name) {
  for (int one = 0; one <= static_cast<int>(Algorithm::cma); ++one) {
    if (name == name_of(static_cast<Algorithm>(one))) return static_cast<Algorithm>(one);
  }
  return Algorithm::none;
}

Shape shape_of(const std::vector<Place>& places) {
  Shape shape;
  shape.nranks = static_cast<int>(places.size());
  shape.least_local = shape.nranks;
  for (const Place& place : places) {
    shape.nodes = std::max(shape.nodes, place.node + 1);
    shape.least_local = std::min(shape.least_local, place.local_size);
    shape.most_local = std::max(shape.most_local, place.local_size);
  }
  return shape;
}

bool in_shared_memory(Algorithm algorithm) {
  return algorithm == Algorithm::oneshot || algorithm == Algorithm::twoshot || algorithm == Algorithm::cma;
}

bool Algorithms::has(Algorithm algorithm) const { return std::find(begin(), end(), algorithm) != end(); }

std::string Algorithms::names() const {
  std::string list;
  for (const Algorithm one : *this) list += (list.empty() ? "" : ", ") + std::string(name_of(one));
  return list;
}

namespace {

// slots: where all ranks share the memory of one node; over_links: everywhere.
Algorithms in_memory(const Shape& shape, const Algorithms& slots, const Algorithms& over_links) {
  Algorithms list{};
  if (shape.shared) list = slots;
  if (shape.shared && shape.crossed) list.add(Algorithm::cma);
  for (const Algorithm one : over_links) list.add(one);
  return list;
}

}  // namespace

Algorithms algorithms_of(Kind kind, const Shape& shape) {
  switch (kind) {
    case Kind::all_reduce: {
      Algorithms list = in_memory(shape, {Algorithm::oneshot, Algorithm::twoshot},
                                  {Algorithm::doubling, Algorithm::ring, Algorithm::halving, Algorithm::direct,
                                   Algorithm::double_tree, Algorithm::n_trees});
      if (shape.nodes > 1 && shape.most_local > 1) list.add(Algorithm::hierarchical);
      return list;
    }
    case Kind::broadcast:
      return in_memory(shape, {Algorithm::oneshot}, {Algorithm::tree, Algorithm::chain});
    case Kind::reduce:
      return in_memory(shape, {Algorithm::oneshot, Algorithm::twoshot}, {Algorithm::tree, Algorithm::chain});
    case Kind::all_gather:
    case Kind::all_gatherv:
    case Kind::reduce_scatter:
      return in_memory(shape, {Algorithm::oneshot}, {Algorithm::ring});
    case Kind::gather:
    case Kind::scatter:
      return in_memory(shape, {Algorithm::oneshot}, {Algorithm::direct});
    case Kind::all_to_all:
      return in_memory(shape, {Algorithm::oneshot}, {Algorithm::pairwise});
    case Kind::all_to_allv:
      return {Algorithm::pairwise};
    case Kind::barrier:
      return {Algorithm::dissemination};
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
  return {};
}

}  // namespace ccore
