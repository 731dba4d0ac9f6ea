// Receives whose sender is not named: whom they take, whom they pass over, and how they fail.
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "oracle.h"
#include "ranks.h"

namespace test {
namespace {

// More than a ring of shared memory holds.
constexpr size_t kLarge = (size_t{1} << 20) + 5;

cc_result send(const void* data, size_t count, int peer, int tag, cc_comm* comm, cc_dtype dtype = CC_INT32) {
  const cc_op_options options{sizeof options, 0, tag, 0, nullptr};
  return cc_send(data, count, dtype, peer, comm, &options);
}

cc_result receive(void* data, size_t count, int* source, int tag, cc_comm* comm, int64_t timeout_ms = 0) {
  const cc_op_options options{sizeof options, timeout_ms, tag, 0, nullptr};
  return cc_recv_any(data, count, CC_INT32, source, comm, &options);
}

// Everything that everybody sent arrives once, and what one rank sent arrives in its order.
void all_is_received(const std::string& layout, int nranks) {
  constexpr int kEach = 30;
  run_ranks(nranks, layout_named(layout), [&](int rank, cc_comm* comm) {
    if (rank != 1) {
      for (int i = 0; i < kEach; ++i) {
        const int value[2] = {rank, i};
        EXPECT(send(value, 2, 1, 3, comm) == CC_SUCCESS, last_error(comm));
      }
    } else {
      std::vector<int> next(static_cast<size_t>(nranks));
      for (int i = 0; i < kEach * (nranks - 1); ++i) {
        int value[2] = {-1, -1};
        int source = -1;
        EXPECT(receive(value, 2, &source, 3, comm) == CC_SUCCESS, last_error(comm));
        EXPECT(value[0] == source && source != 1, "from ", source, ", it says ", value[0]);
        EXPECT(value[1] == next[static_cast<size_t>(source)]++, "order of rank ", source);
      }
    }
    EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
  });
}

// With messages of all ranks at hand, none is taken twice before each was taken once.
void ranks_take_turns(const std::string& layout) {
  constexpr int kRanks = 4;
  Meeting meeting(kRanks);
  run_ranks(kRanks, layout_named(layout), [&](int rank, cc_comm* comm) {
    for (int i = 0; rank != 0 && i < 2; ++i) EXPECT(send(&i, 1, 0, 0, comm) == CC_SUCCESS, last_error(comm));
    meeting.wait();
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (int round = 0; rank == 0 && round < 2; ++round) {
      std::set<int> seen;
      for (int i = 1; i < kRanks; ++i) {
        int value = -1;
        int source = -1;
        EXPECT(receive(&value, 1, &source, 0, comm) == CC_SUCCESS, last_error(comm));
        EXPECT(value == round, value);
        seen.insert(source);
      }
      EXPECT(seen.size() == kRanks - 1, seen.size(), " ranks in round ", round);
    }
    meeting.wait();
  });
}

// Other tags, and ranks that are already in a collective, are passed over, and lose nothing.
void others_are_passed_over(const std::string& layout) {
  run_ranks(4, layout_named(layout), [&](int rank, cc_comm* comm) {
    int value = 10 + rank;
    int source = -1;
    if (rank == 1) EXPECT(send(&value, 1, 0, 1, comm) == CC_SUCCESS, last_error(comm));
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT(send(&value, 1, 0, 2, comm) == CC_SUCCESS, last_error(comm));
    }
    if (rank == 0) {  // rank 3 has been in the barrier for long
      EXPECT(receive(&value, 1, &source, 2, comm) == CC_SUCCESS, last_error(comm));
      EXPECT(source == 2 && value == 12, "from ", source);
      EXPECT(receive(&value, 1, &source, 1, comm) == CC_SUCCESS, last_error(comm));
      EXPECT(source == 1 && value == 11, "from ", source);
    }
    EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
  });
}

// Receives from one rank, from any, large and small, and from this rank itself, all at once.
void in_a_group(const std::string& layout, int nranks) {
  run_ranks(nranks, layout_named(layout), [&](int rank, cc_comm* comm) {
    const auto ranks = static_cast<size_t>(nranks);
    const Data out = random_input(CC_UINT8, kLarge, rank, 5);
    std::vector<Data> in(ranks, Data(kLarge, 0xa5));
    std::vector<int> sources(ranks, -1);
    std::vector<int> marks(ranks, -1);
    const cc_op_options big{sizeof big, 0, 1, 0, nullptr};
    EXPECT(cc_group_start(comm) == CC_SUCCESS, last_error(comm));
    for (size_t i = 0; i < ranks; ++i) {
      EXPECT(cc_recv_any(in[i].data(), kLarge, CC_UINT8, &sources[i], comm, &big) == CC_SUCCESS, "recv_any");
    }
    for (int peer = 0; peer < nranks; ++peer) {
      EXPECT(send(out.data(), kLarge, peer, 1, comm, CC_UINT8) == CC_SUCCESS, "send");
      EXPECT(send(&rank, 1, peer, 0, comm) == CC_SUCCESS, "send");
      EXPECT(cc_recv(&marks[static_cast<size_t>(peer)], 1, CC_INT32, peer, comm, nullptr) == CC_SUCCESS, "recv");
    }
    EXPECT(cc_group_end(comm) == CC_SUCCESS, last_error(comm));
    std::set<int> seen;
    for (size_t i = 0; i < ranks; ++i) {
      EXPECT(marks[i] == static_cast<int>(i), "mark ", marks[i]);
      EXPECT(seen.insert(sources[i]).second && sources[i] >= 0, "twice from ", sources[i]);
      EXPECT(in[i] == random_input(CC_UINT8, kLarge, sources[i], 5), "data of ", sources[i]);
    }
    EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
  });
}

void failures_name_it(const std::string& layout) {
  Meeting meeting(3);
  run_ranks(3, layout_named(layout), [&](int rank, cc_comm* comm) {
    int value = 0;
    int source = -1;
    if (rank == 0) {
      EXPECT(receive(&value, 1, &source, 7, comm, 200) == CC_ERROR_TIMEOUT, last_error(comm));
      EXPECT(contains(last_error(comm), "transfer from any rank to rank 0 (count=1, i32, tag=7)"), last_error(comm));
      EXPECT(contains(last_error(comm), "data from any rank"), last_error(comm));
    }
    meeting.wait();
  });
  run_ranks(3, layout_named(layout), [&](int rank, cc_comm* comm) {
    int value[2] = {0, 0};
    int source = -1;
    if (rank == 2) EXPECT(send(value, 2, 0, 0, comm) == CC_SUCCESS, last_error(comm));
    if (rank == 0) EXPECT(receive(value, 1, &source, 0, comm) == CC_ERROR_DESYNC, last_error(comm));
    meeting.wait();
    EXPECT(rank != 0 || contains(last_error(comm), "from rank 2 to rank 0 (count=1, i32, tag=0)"), last_error(comm));
    EXPECT(rank != 0 || contains(last_error(comm), "(count=2, i32"), last_error(comm));
  });
}

// Ranks that leave do no harm as long as another rank remains.
void those_who_left_are_no_source(const std::string& layout) {
  run_ranks(3, layout_named(layout), [&](int rank, cc_comm* comm) {
    int value = rank;
    if (rank == 1) return;
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      EXPECT(send(&value, 1, 0, 0, comm) == CC_SUCCESS, last_error(comm));
      return;
    }
    int source = -1;
    EXPECT(receive(&value, 1, &source, 0, comm) == CC_SUCCESS, last_error(comm));
    EXPECT(source == 2 && value == 2, "from ", source);
    EXPECT(receive(&value, 1, &source, 0, comm) == CC_ERROR_REMOTE, last_error(comm));
    EXPECT(contains(last_error(comm), "all other ranks destroyed their communicators"), last_error(comm));
  });
}

void alone() {
  run_ranks(1, layout_named("shm"), [](int, cc_comm* comm) {
    int in = 0;
    int source = -1;
    EXPECT(receive(&in, 1, &source, 0, comm) == CC_ERROR_INVALID_USAGE, "there is nobody");
    EXPECT(receive(&in, 1, nullptr, 0, comm) == CC_ERROR_INVALID_ARGUMENT, "nowhere to say who");
    const int out = 5;
    EXPECT(cc_group_start(comm) == CC_SUCCESS, last_error(comm));
    EXPECT(receive(&in, 1, &source, 0, comm) == CC_SUCCESS, last_error(comm));
    EXPECT(send(&out, 1, 0, 0, comm) == CC_SUCCESS, last_error(comm));
    EXPECT(cc_group_end(comm) == CC_SUCCESS, last_error(comm));
    EXPECT(in == 5 && source == 0, "from ", source);
  });
}

}  // namespace

void receive_any() {
  for (const char* layout : {"shm", "tcp"}) {
    all_is_received(layout, 3);
    ranks_take_turns(layout);
    others_are_passed_over(layout);
    in_a_group(layout, 3);
    failures_name_it(layout);
    those_who_left_are_no_source(layout);
  }
  all_is_received("mixed", 4);
  in_a_group("mixed", 4);
  alone();
}

}  // namespace test
