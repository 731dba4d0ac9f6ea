// Every all_reduce algorithm x type x operator x awkward size, on ranks of one node and of several.
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "cases.h"
#include "collectives/algorithm.h"
#include "expect.h"
#include "oracle.h"
#include "ranks.h"

namespace test {
namespace {

struct Combination {
  cc_dtype dtype;
  cc_redop op;
  size_t count;
};

std::vector<Combination> combinations(size_t p) {
  std::vector<Combination> list;
  for (const cc_dtype dtype : kDtypes) {
    const size_t larger = 36007 / cc_dtype_size(dtype) + 1;
    for (const size_t count : {size_t{0}, size_t{1}, p - 1, p, p + 1, size_t{1009}, larger}) {
      for (const cc_redop op : {CC_SUM, CC_AVG}) list.push_back({dtype, op, count});
    }
  }
  for (const cc_redop op : kRedops) list.push_back({CC_FLOAT32, op, 2 * p + 1});
  // Several chunks, and more than a ring of shared memory holds.
  list.push_back({CC_INT8, CC_SUM, (size_t{1} << 20) + 3});
  list.push_back({CC_FLOAT32, CC_AVG, (size_t{3} << 18) + 3});
  return list;
}

// results: of rank 0, one after the other.
void run_all(int rank, cc_comm* comm, Meeting* meeting, std::vector<Data>* shared, std::vector<Data>* results) {
  const size_t p = shared->size();
  const auto own = static_cast<size_t>(rank);
  for (const Combination& c : combinations(p)) {
    const auto input_of = [&](size_t peer) {
      return random_input(c.dtype, c.count, static_cast<int>(peer), static_cast<unsigned>(c.count % 7));
    };
    const Data mine = input_of(own);
    Data& out = (*shared)[own];
    out.assign(mine.size(), 0xa5);
    const auto reduce = [&](const Data& from, Data* to) {
      EXPECT(cc_all_reduce(from.data(), to->data(), c.count, c.dtype, c.op, comm, nullptr) == CC_SUCCESS, "rank ", rank,
             ": ", cc_last_error(nullptr));
    };
    reduce(mine, &out);
    // One rank holds the result against the oracle, and every other has the very same bits.
    if (rank == 0) {
      std::vector<Data> inputs;
      for (size_t peer = 0; peer < p; ++peer) inputs.push_back(input_of(peer));
      expect_reduction(out, inputs, 0, c.dtype, c.op);
      results->push_back(out);
    }
    meeting->wait();
    EXPECT(out == (*shared)[0], "rank ", rank, " has other bits than rank 0");
    EXPECT(mine == input_of(own), "the input was written to");
    Data in_place = mine;
    reduce(in_place, &in_place);
    EXPECT(in_place == out, "in place differs from out of place");
    meeting->wait();
  }
}

}  // namespace

void algorithms(const std::string& layout, int nranks) {
  const Layout places = layout_named(layout);
  std::vector<std::string> keys;
  for (int rank = 0; rank < nranks; ++rank) keys.push_back(places.node_id ? places.node_id(rank) : "");
  const ccore::Shape shape = ccore::shape_of(ccore::places_of(keys));
  std::map<ccore::Algorithm, std::vector<Data>> results;
  for (const ccore::Algorithm algorithm : algorithms_of(ccore::Kind::all_reduce, shape)) {
    results[algorithm];
    const std::string forced = std::string("all_reduce:") + name_of(algorithm);
    EXPECT(setenv("CCORE_ALGO", forced.c_str(), 1) == 0, "setenv");
    Meeting meeting(nranks);
    std::vector<Data> shared(static_cast<size_t>(nranks));
    run_ranks(nranks, places, [&](int rank, cc_comm* comm) {
      try {
        run_all(rank, comm, &meeting, &shared, &results[algorithm]);
      } catch (const Failed& failure) {
        cc_comm_abort(comm);  // the other ranks must not wait for this one
        throw Failed(forced + ": " + failure.what());
      }
    });
  }
  EXPECT(unsetenv("CCORE_ALGO") == 0, "unsetenv");
  // Times that were measured over links choose between these two, and must not choose bits.
  EXPECT(results[ccore::Algorithm::doubling] == results[ccore::Algorithm::halving], "they add in another order");
}

}  // namespace test
