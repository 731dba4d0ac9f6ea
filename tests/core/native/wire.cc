// The bytes that really went over the links are the bytes of the schedules (docs/algorithms.md).
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "api/support.h"
#include "cases.h"
#include "collectives/algorithm.h"
#include "expect.h"
#include "ranks.h"
#include "schedule/packing.h"
#include "schedule/schedules.h"
#include "schedule/trees.h"
#include "symbolic.h"

namespace test {
namespace {

uint64_t sent_by(cc_comm* comm, int nranks) {
  uint64_t total = 0;
  for (int peer = 0; peer < nranks; ++peer) {
    cc_peer_info info{};
    info.size = sizeof info;
    EXPECT(cc_comm_peer_info(comm, peer, &info) == CC_SUCCESS, cc_last_error(nullptr));
    total += info.payload_bytes_sent;
  }
  return total;
}

// Whether the last operation was done so, or by the kernel, which moves the same bytes.
bool is_in_two_shots(cc_comm* comm) {
  const std::string taken = comm->communicator.recorder().recent().back().algorithm;
  return taken == "twoshot" || taken == "cma";
}

void count_bytes(const std::string& layout, int nranks) {
  const auto p = static_cast<uint64_t>(nranks);
  const uint64_t count = 20000 * p;  // elements of 4 bytes: enough for the ring, and for two shots
  run_ranks(nranks, layout_named(layout), [&](int rank, cc_comm* comm) {
    std::vector<float> a(count * p);
    std::vector<float> b(count * p);
    uint64_t before = 0;
    const auto expect_sent = [&](uint64_t expected, const char* what) {
      const uint64_t now = sent_by(comm, nranks);
      EXPECT(now - before == expected, what, ": rank ", rank, " sent ", now - before, ", expected ", expected);
      before = now;
    };
    EXPECT(cc_all_reduce(a.data(), b.data(), count, CC_FLOAT32, CC_SUM, comm, nullptr) == CC_SUCCESS, last_error(comm));
    expect_sent(2 * (p - 1) * count * 4 / p, "all_reduce");
    const uint64_t few = 101;
    EXPECT(cc_all_reduce(a.data(), b.data(), few, CC_FLOAT32, CC_SUM, comm, nullptr) == CC_SUCCESS, last_error(comm));
    const uint64_t by_doubling = elements_sent(ccore::doubling_all_reduce(rank, nranks), few) * 4;
    // In shared memory each rank reads what all others have.
    expect_sent(layout == "shm" ? (p - 1) * few * 4 : by_doubling, "all_reduce of little data");
    EXPECT(cc_all_gather(a.data(), b.data(), count, CC_FLOAT32, comm, nullptr) == CC_SUCCESS, last_error(comm));
    expect_sent((p - 1) * count * 4, "all_gather");
    EXPECT(cc_reduce_scatter(a.data(), b.data(), count, CC_FLOAT32, CC_SUM, comm, nullptr) == CC_SUCCESS,
           last_error(comm));
    expect_sent((p - 1) * count * 4, "reduce_scatter");
    const uint64_t large = 20000;  // 80 KB: a chain
    std::vector<float> c(large);
    EXPECT(cc_broadcast(c.data(), c.data(), large, CC_FLOAT32, 1, comm, nullptr) == CC_SUCCESS, last_error(comm));
    // In shared memory all others read what the root has.
    const uint64_t by_root = rank == 1 ? (p - 1) * large * 4 : 0;
    expect_sent(layout == "shm" ? by_root
                : rank == 0     ? 0
                                : large * 4,
                "broadcast, chain: all but the last of the chain send it once");
    EXPECT(cc_reduce(a.data(), b.data(), count * p, CC_FLOAT32, CC_SUM, 1, comm, nullptr) == CC_SUCCESS,
           last_error(comm));
    // In two shots the others read the parts that the root has for them, too.
    const uint64_t from_others = rank == 1 ? 0 : count * p * 4;
    const uint64_t in_two = rank == 1 ? (p - 1) * count * 4 : count * p * 4;
    const uint64_t sent_at_root = layout == "shm" && is_in_two_shots(comm) ? in_two : from_others;
    expect_sent(sent_at_root, "reduce, chain: all but the root send it once");
    EXPECT(cc_reduce(a.data(), b.data(), few, CC_FLOAT32, CC_SUM, 0, comm, nullptr) == CC_SUCCESS, last_error(comm));
    const uint64_t by_tree = elements_sent(ccore::tree_reduce(rank, nranks, 0), few) * 4;
    // On a loaded machine two shots may have been measured as the faster ones; the root's own part is the first.
    const uint64_t few_at_root = is_in_two_shots(comm) ? (few - (few + p - 1) / p) * 4 : 0;
    expect_sent(layout != "shm" ? by_tree : rank == 0 ? few_at_root : few * 4, "reduce, tree");
    EXPECT(cc_gather(a.data(), b.data(), count, CC_FLOAT32, 1, comm, nullptr) == CC_SUCCESS, last_error(comm));
    expect_sent(rank == 1 ? 0 : count * 4, "gather");
    EXPECT(cc_scatter(a.data(), b.data(), count, CC_FLOAT32, 1, comm, nullptr) == CC_SUCCESS, last_error(comm));
    expect_sent(rank == 1 ? (p - 1) * count * 4 : 0, "scatter");
    EXPECT(cc_all_to_all(a.data(), b.data(), count, CC_FLOAT32, comm, nullptr) == CC_SUCCESS, last_error(comm));
    expect_sent((p - 1) * count * 4, "all_to_all");
    EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
    uint64_t rounds = 0;
    while ((uint64_t{1} << rounds) < p) ++rounds;
    expect_sent(rounds, "barrier");
  });
}

// What the schedule of the rank sends of `count` elements.
size_t scheduled(ccore::Algorithm algorithm, int rank, const std::vector<ccore::Place>& places, size_t count) {
  const int p = static_cast<int>(places.size());
  const int place = ccore::NodeOrder(places).place_of(rank);
  switch (algorithm) {
    case ccore::Algorithm::doubling:
      return elements_sent(ccore::doubling_all_reduce(place, p), count);
    case ccore::Algorithm::ring:
      return elements_sent(ccore::ring_all_reduce(place, p), count);
    case ccore::Algorithm::halving:
      return elements_sent(ccore::halving_all_reduce(place, p), count);
    case ccore::Algorithm::direct:
      return elements_sent(ccore::direct_all_reduce(rank, p), count);
    case ccore::Algorithm::double_tree:
      return elements_sent(tree_all_reduce(place, ccore::double_binary_tree(p), 1), count);
    case ccore::Algorithm::n_trees:
      return elements_sent(tree_all_reduce(rank, ccore::star_trees(p), 1), count);
    case ccore::Algorithm::hierarchical:
      return elements_sent(ccore::hierarchical_all_reduce(rank, places, 1), count);
    default:
      fail(__FILE__, __LINE__, "no schedule for ", name_of(algorithm));
  }
}

void count_algorithms(const std::string& layout, int nranks) {
  const Layout where = layout_named(layout);
  std::vector<std::string> keys;
  for (int rank = 0; rank < nranks; ++rank) keys.push_back(where.node_id(rank));
  const std::vector<ccore::Place> places = ccore::places_of(keys);
  const size_t count = 5040;  // divisible by what the blocks are
  EXPECT(setenv("CCORE_2D_BETWEEN", "ring", 1) == 0, "setenv");
  for (const ccore::Algorithm algorithm : algorithms_of(ccore::Kind::all_reduce, shape_of(places))) {
    const std::string forced = std::string("all_reduce:") + name_of(algorithm);
    EXPECT(setenv("CCORE_ALGO", forced.c_str(), 1) == 0, "setenv");
    run_ranks(nranks, where, [&](int rank, cc_comm* comm) {
      std::vector<float> data(count);
      EXPECT(cc_all_reduce(data.data(), data.data(), count, CC_FLOAT32, CC_SUM, comm, nullptr) == CC_SUCCESS,
             last_error(comm));
      const size_t expected = scheduled(algorithm, rank, places, count) * sizeof(float);
      const uint64_t sent = sent_by(comm, nranks);
      EXPECT(sent == expected, forced, ": rank ", rank, " sent ", sent, ", expected ", expected);
    });
  }
  EXPECT(unsetenv("CCORE_2D_BETWEEN") == 0 && unsetenv("CCORE_ALGO") == 0, "unsetenv");
}

// 2d with each of the schedules between the nodes.
void count_between(int nranks) {
  const Layout where = layout_named("mixed");
  std::vector<std::string> keys;
  for (int rank = 0; rank < nranks; ++rank) keys.push_back(where.node_id(rank));
  const std::vector<ccore::Place> places = ccore::places_of(keys);
  const size_t count = 5040;
  EXPECT(setenv("CCORE_ALGO", "all_reduce:2d", 1) == 0, "setenv");
  const std::vector<std::pair<const char*, ccore::Between>> ways = {{"ring", ccore::Between::ring},
                                                                    {"ps", ccore::Between::direct},
                                                                    {"tree", ccore::Between::double_tree},
                                                                    {"butterfly", ccore::Between::halving}};
  for (const auto& [name, between] : ways) {
    EXPECT(setenv("CCORE_2D_BETWEEN", name, 1) == 0, "setenv");
    run_ranks(nranks, where, [&, between = between, name = name](int rank, cc_comm* comm) {
      std::vector<float> data(count, 1.0f);
      EXPECT(cc_all_reduce(data.data(), data.data(), count, CC_FLOAT32, CC_AVG, comm, nullptr) == CC_SUCCESS,
             last_error(comm));
      EXPECT(data == std::vector<float>(count, 1.0f), name, ": not the average");
      const ccore::Schedule schedule = ccore::hierarchical_all_reduce(rank, places, 1, between);
      const uint64_t sent = sent_by(comm, nranks);
      EXPECT(sent == elements_sent(schedule, count) * sizeof(float), name, ": rank ", rank, " sent ", sent);
    });
  }
  EXPECT(unsetenv("CCORE_2D_BETWEEN") == 0 && unsetenv("CCORE_ALGO") == 0, "unsetenv");
}

// Ranks that a launcher has dealt out over two nodes one by one: what goes from node to node is that of neighbours in a
// ring through the nodes, not of all ranks.
void count_between_dealt_ranks(int nranks) {
  const auto p = static_cast<uint64_t>(nranks);
  const uint64_t count = 5040;
  EXPECT(setenv("CCORE_ALGO", "all_reduce:ring,broadcast:chain,reduce:chain", 1) == 0, "setenv");
  run_ranks(nranks, layout_named("cyclic"), [&](int rank, cc_comm* comm) {
    const auto leaving = [&] {
      uint64_t total = 0;
      for (int peer = 0; peer < nranks; ++peer) {
        cc_peer_info info{};
        info.size = sizeof info;
        EXPECT(cc_comm_peer_info(comm, peer, &info) == CC_SUCCESS, cc_last_error(nullptr));
        if (peer % 2 != rank % 2) total += info.payload_bytes_sent;
      }
      return total;
    };
    std::vector<float> own(count * p, static_cast<float>(rank)), all(count * p, -1.0f);
    uint64_t before = 0;
    const bool last_of_node = rank >= nranks - 2;
    const auto expect_leaving = [&](uint64_t elements, const char* what) {
      const uint64_t now = leaving();
      const uint64_t expected = last_of_node ? elements * 4 : 0;
      EXPECT(now - before == expected, what, ": rank ", rank, " sent ", now - before, " to the other node");
      before = now;
    };
    const float sum = static_cast<float>(nranks * (nranks - 1)) / 2;
    EXPECT(cc_all_gather(own.data(), all.data(), count, CC_FLOAT32, comm, nullptr) == CC_SUCCESS, last_error(comm));
    for (uint64_t i = 0; i < count * p; ++i) EXPECT(all[i] == static_cast<float>(i / count), "gathered ", i);
    expect_leaving((p - 1) * count, "all_gather");
    for (uint64_t i = 0; i < count * p; ++i) own[i] = static_cast<float>(i / count) + static_cast<float>(rank);
    EXPECT(cc_reduce_scatter(own.data(), all.data(), count, CC_FLOAT32, CC_SUM, comm, nullptr) == CC_SUCCESS,
           last_error(comm));
    for (uint64_t i = 0; i < count; ++i) EXPECT(all[i] == static_cast<float>(nranks * rank) + sum, "scattered ", i);
    expect_leaving((p - 1) * count, "reduce_scatter");
    const std::vector<float> mine(count * p, static_cast<float>(rank));
    EXPECT(cc_all_reduce(mine.data(), all.data(), count * p, CC_FLOAT32, CC_SUM, comm, nullptr) == CC_SUCCESS,
           last_error(comm));
    EXPECT(all == std::vector<float>(count * p, sum), "all_reduce");
    expect_leaving(2 * (p - 1) * count, "all_reduce");
    const int root = nranks - 1;
    std::vector<float> from_root(mine);
    EXPECT(cc_broadcast(mine.data(), from_root.data(), count, CC_FLOAT32, root, comm, nullptr) == CC_SUCCESS,
           last_error(comm));
    EXPECT(from_root[0] == static_cast<float>(root) && from_root[count - 1] == from_root[0], "broadcast");
    EXPECT(cc_reduce(mine.data(), all.data(), count, CC_FLOAT32, CC_SUM, root, comm, nullptr) == CC_SUCCESS,
           last_error(comm));
    EXPECT(rank != root || (all[0] == sum && all[count - 1] == sum), "reduce");
    // The chain from the last rank enters the other node once, and that node's last rank is next to it.
    EXPECT(leaving() - before <= (last_of_node ? 2 * count * 4 : count * 4), "chains: rank ", rank);
  });
  EXPECT(unsetenv("CCORE_ALGO") == 0, "unsetenv");
}

}  // namespace

void wire() {
  for (const int nranks : {4, 6}) count_between_dealt_ranks(nranks);
  for (const int nranks : {3, 4, 6}) count_algorithms("mixed", nranks);
  count_between(6);

  for (const int nranks : {2, 3, 5}) {
    count_bytes("shm", nranks);
    count_bytes("tcp", nranks);
  }
}

}  // namespace test
