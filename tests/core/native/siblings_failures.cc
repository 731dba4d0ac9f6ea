// A rank that does not come, or aborts, ends the siblings of all_reduce on all ranks that wait for it, by each of their
// ways in the memory of one node, soon and with its name.
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "ranks.h"

namespace test {
namespace {

constexpr int kRanks = 3;
constexpr int kAbsent = 2;
constexpr size_t kLittle = 10;
constexpr size_t kMuch = 200000;  // elements for each rank: several chunks

struct Collective {
  const char* name;
  int root;  // who has or gets all; none: -1
  std::vector<const char*> ways;
  std::function<cc_result(const float*, float*, size_t, cc_comm*, const cc_op_options*)> call;

  // Others may end before they notice.
  bool must_wait(int rank) const { return root == -1 || root == kAbsent || rank == root; }
};

std::vector<Collective> collectives() {
  constexpr cc_dtype kType = CC_FLOAT32;
  return {
      {"broadcast",
       kAbsent,
       {"oneshot", "cma"},
       [](const float*, float* r, size_t n, cc_comm* c, const cc_op_options* o) {
         return cc_broadcast(r, r, n, kType, kAbsent, c, o);
       }},
      {"scatter",
       kAbsent,
       {"oneshot", "cma"},
       [](const float* s, float* r, size_t n, cc_comm* c, const cc_op_options* o) {
         return cc_scatter(s, r, n, kType, kAbsent, c, o);
       }},
      {"gather",
       0,
       {"oneshot", "cma"},
       [](const float* s, float* r, size_t n, cc_comm* c, const cc_op_options* o) {
         return cc_gather(s, r, n, kType, 0, c, o);
       }},
      {"reduce",
       0,
       {"oneshot", "twoshot", "cma"},
       [](const float* s, float* r, size_t n, cc_comm* c, const cc_op_options* o) {
         return cc_reduce(s, r, n, kType, CC_SUM, 0, c, o);
       }},
      {"all_gather",
       -1,
       {"oneshot", "cma"},
       [](const float* s, float* r, size_t n, cc_comm* c, const cc_op_options* o) {
         return cc_all_gather(s, r, n, kType, c, o);
       }},
      {"all_to_all",
       -1,
       {"oneshot", "cma"},
       [](const float* s, float* r, size_t n, cc_comm* c, const cc_op_options* o) {
         return cc_all_to_all(s, r, n, kType, c, o);
       }},
      {"reduce_scatter",
       -1,
       {"oneshot", "cma"},
       [](const float* s, float* r, size_t n, cc_comm* c, const cc_op_options* o) {
         return cc_reduce_scatter(s, r, n, kType, CC_SUM, c, o);
       }},
  };
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void a_rank_is_missing(const Collective& collective, const std::string& what, size_t count, bool aborts) {
  Meeting meeting(kRanks);
  run_ranks(kRanks, layout_named("shm"), [&](int rank, cc_comm* comm) {
    std::vector<float> send(count * kRanks);
    std::vector<float> recv(count * kRanks);
    const auto call = [&](const cc_op_options* options) {
      return collective.call(send.data(), recv.data(), count, comm, options);
    };
    EXPECT(call(nullptr) == CC_SUCCESS, what, ": ", last_error(comm));
    meeting.wait();
    if (rank == kAbsent) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (aborts) cc_comm_abort(comm);
    } else {
      const cc_op_options options{sizeof options, aborts ? 30000 : 250, 0, 0, nullptr};
      const auto start = std::chrono::steady_clock::now();
      const cc_result result = call(&options);
      EXPECT(seconds_since(start) < 15, what, " took ", seconds_since(start), " s");
      if (collective.must_wait(rank)) {
        EXPECT(result == CC_ERROR_REMOTE || (!aborts && result == CC_ERROR_TIMEOUT), what, ": ", result);
        EXPECT(contains(last_error(comm), "rank 2"), what, ": ", last_error(comm));
      }
    }
    meeting.wait();
  });
}

}  // namespace

void siblings_failures() {
  for (const Collective& collective : collectives()) {
    for (const std::string way : collective.ways) {
      const std::string what = std::string(collective.name) + ":" + way;
      EXPECT(setenv("CCORE_ALGO", what.c_str(), 1) == 0, "setenv");
      for (const bool aborts : {false, true}) a_rank_is_missing(collective, what, kMuch, aborts);
      if (way == "oneshot") a_rank_is_missing(collective, what, kLittle, false);
    }
  }
  EXPECT(unsetenv("CCORE_ALGO") == 0, "unsetenv");
}

}  // namespace test
