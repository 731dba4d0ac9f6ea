// Every collective, called with another count, type, operator or root by one rank: an error that names both calls.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "ranks.h"

namespace test {
namespace {

struct Arguments {
  size_t count = 6;
  cc_dtype dtype = CC_FLOAT32;
  cc_redop op = CC_SUM;
  int root = 0;
};

struct Collective {
  const char* name;
  bool reduces;
  bool rooted;
  std::function<cc_result(const Arguments&, cc_comm*)> call;
};

constexpr size_t kRoom = 4096;

std::vector<Collective> collectives() {
  const auto out = [] { return std::vector<unsigned char>(kRoom); };
  return {
      {"all_reduce", true, false,
       [=](const Arguments& a, cc_comm* c) {
         auto s = out(), r = out();
         return cc_all_reduce(s.data(), r.data(), a.count, a.dtype, a.op, c, nullptr);
       }},
      {"broadcast", false, true,
       [=](const Arguments& a, cc_comm* c) {
         auto s = out();
         return cc_broadcast(s.data(), s.data(), a.count, a.dtype, a.root, c, nullptr);
       }},
      {"all_gather", false, false,
       [=](const Arguments& a, cc_comm* c) {
         auto s = out(), r = out();
         return cc_all_gather(s.data(), r.data(), a.count, a.dtype, c, nullptr);
       }},
      {"reduce_scatter", true, false,
       [=](const Arguments& a, cc_comm* c) {
         auto s = out(), r = out();
         return cc_reduce_scatter(s.data(), r.data(), a.count, a.dtype, a.op, c, nullptr);
       }},
      {"reduce", true, true,
       [=](const Arguments& a, cc_comm* c) {
         auto s = out(), r = out();
         return cc_reduce(s.data(), r.data(), a.count, a.dtype, a.op, a.root, c, nullptr);
       }},
      {"gather", false, true,
       [=](const Arguments& a, cc_comm* c) {
         auto s = out(), r = out();
         return cc_gather(s.data(), r.data(), a.count, a.dtype, a.root, c, nullptr);
       }},
      {"scatter", false, true,
       [=](const Arguments& a, cc_comm* c) {
         auto s = out(), r = out();
         return cc_scatter(s.data(), r.data(), a.count, a.dtype, a.root, c, nullptr);
       }},
      {"all_to_all", false, false,
       [=](const Arguments& a, cc_comm* c) {
         auto s = out(), r = out();
         return cc_all_to_all(s.data(), r.data(), a.count, a.dtype, c, nullptr);
       }},
  };
}

// Those whose text gives their counts otherwise.
std::vector<Collective> of_uneven_blocks() {
  const auto out = [] { return std::vector<unsigned char>(kRoom); };
  return {
      {"all_gatherv", false, false,
       [=](const Arguments& a, cc_comm* c) {
         auto s = out(), r = out();
         const size_t counts[2] = {a.count, a.count};
         const size_t offsets[2] = {0, a.count};
         return cc_all_gatherv(s.data(), r.data(), counts, offsets, a.dtype, c, nullptr);
       }},
      {"all_to_allv", false, false,
       [=](const Arguments& a, cc_comm* c) {
         auto s = out(), r = out();
         const size_t counts[2] = {a.count, a.count};
         const size_t offsets[2] = {0, a.count};
         return cc_all_to_allv(s.data(), counts, offsets, r.data(), counts, offsets, a.dtype, c, nullptr);
       }},
  };
}

// A rank that only sends may be done before it hears of it; the barrier after it has the news then.
cc_result with_barrier(cc_result first, cc_comm* comm) {
  return first == CC_SUCCESS ? cc_barrier(comm, nullptr) : first;
}

// Rank 1 calls with `other`; both ranks must get the error with `first` and `second` in it.
void expect_desync(const std::string& layout, const Collective& collective, const Arguments& other,
                   const std::string& first, const std::string& second) {
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
    const cc_result result = with_barrier(collective.call(rank == 1 ? other : Arguments(), comm), comm);
    const std::string text = last_error(comm);
    EXPECT(result == CC_ERROR_DESYNC, collective.name, " on rank ", rank, ": ", result, " ", text);
    EXPECT(contains(text, collective.name) && contains(text, first) && contains(text, second), text);
    EXPECT(contains(text, "rank 0 is in") && contains(text, "rank 1 is in"), text);
  });
}

void expect_both_named(int rank, cc_comm* comm, cc_result result, const std::string& about) {
  const std::string text = last_error(comm);
  EXPECT(result == CC_ERROR_DESYNC, about, " on rank ", rank, ": ", result, " ", text);
  EXPECT(contains(text, "rank 0 is in operation") && contains(text, "rank 1 is in operation"), about, ": ", text);
}

// Two ranks that only send to each other are in the next operation when they notice, and two that wait for each other
// over a link ask after a second.
void another_root(const std::string& layout, const Collective& collective) {
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    Arguments mine;
    mine.root = rank;
    expect_both_named(rank, comm, with_barrier(collective.call(mine, comm), comm),
                      std::string(collective.name) + " with another root, " + layout);
  });
}

void another_collective(const std::string& layout, const Collective& first, const Collective& second) {
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    const Collective& mine = rank == 0 ? first : second;
    expect_both_named(rank, comm, with_barrier(mine.call(Arguments(), comm), comm),
                      std::string(first.name) + " and " + second.name + ", " + layout);
  });
}

void another_order(const std::string& layout, const Collective& collective) {
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    cc_result result = CC_SUCCESS;
    if (rank == 0) {
      result = with_barrier(collective.call(Arguments(), comm), comm);
    } else {
      result = cc_barrier(comm, nullptr);
      if (result == CC_SUCCESS) result = collective.call(Arguments(), comm);
    }
    const std::string text = last_error(comm);
    EXPECT(result == CC_ERROR_DESYNC, collective.name, " on rank ", rank, ": ", result, " ", text);
    // A root that only sends is in the next operation by then, and the numbers tell.
    EXPECT(contains(text, collective.name) || contains(text, "rank 0 is in operation 2: barrier()"), text);
    EXPECT(contains(text, "rank 1 is in operation 1: barrier()"), text);
  });
}

using Call = cc_result (*)(int, cc_comm*);  // of a rank that gets its peer

cc_result receive(int peer, cc_comm* comm) {
  std::vector<unsigned char> data(kRoom);
  return cc_recv(data.data(), 6, CC_FLOAT32, peer, comm, nullptr);
}

cc_result receive_from_any(int, cc_comm* comm) {
  std::vector<unsigned char> data(kRoom);
  int source = -1;
  return cc_recv_any(data.data(), 6, CC_FLOAT32, &source, comm, nullptr);
}

cc_result send_more_than_a_link_holds(int peer, cc_comm* comm) {
  const std::vector<unsigned char> data(size_t{64} << 20);
  return cc_send(data.data(), data.size(), CC_UINT8, peer, comm, nullptr);
}

cc_result reduce_much(int, cc_comm* comm) {
  std::vector<float> data(300000);
  return cc_all_reduce(data.data(), data.data(), data.size(), CC_FLOAT32, CC_SUM, comm, nullptr);
}

cc_result reduce_little(int, cc_comm* comm) {
  std::vector<float> data(6);
  return cc_all_reduce(data.data(), data.data(), data.size(), CC_FLOAT32, CC_SUM, comm, nullptr);
}

cc_result meet(int, cc_comm* comm) { return cc_barrier(comm, nullptr); }

cc_result await_broadcast(int peer, cc_comm* comm) {
  std::vector<float> data(6);
  return cc_broadcast(data.data(), data.data(), data.size(), CC_FLOAT32, peer, comm, nullptr);
}

// One rank transfers with another that is in a collective: both must get the error with both calls in it.
void expect_desync(const std::string& layout, int transferring, Call transfer, Call operation,
                   const std::string& name) {
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
    const cc_result result = (rank == transferring ? transfer : operation)(1 - rank, comm);
    const std::string text = last_error(comm);
    EXPECT(result == CC_ERROR_DESYNC, name, " on rank ", 1 - transferring, ": ", result, " ", text);
    EXPECT(contains(text, "is in operation 2: " + name) && contains(text, "is in transfer "), text);
    EXPECT(contains(text, "rank 0 is in") && contains(text, "rank 1 is in"), text);
  });
}

// Over TCP neither finds a header of the other. The one whose deadline comes first tells both: it asks the other one,
// which has to be in its operation by then.
void a_late_transfer(int transferring) {
  std::atomic<cc_comm*> waiting{nullptr};
  run_ranks(2, layout_named("tcp"), [&](int rank, cc_comm* comm) {
    EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
    if (rank != transferring) waiting = comm;
    cc_result state = CC_SUCCESS;
    while (rank == transferring && state != CC_IN_PROGRESS) {
      std::this_thread::yield();
      if (waiting) EXPECT(cc_comm_get_async_error(waiting, &state) == CC_SUCCESS, "async error");
    }
    float data[6] = {};
    const cc_op_options soon{sizeof soon, 500, 0, 0, nullptr};
    const cc_result result =
        rank == transferring ? cc_recv(data, 6, CC_FLOAT32, 1 - rank, comm, &soon) : await_broadcast(1 - rank, comm);
    const std::string text = last_error(comm);
    EXPECT(result == CC_ERROR_DESYNC, "rank ", rank, ": ", result, " ", text);
    EXPECT(contains(text, "is in operation 2: broadcast") && contains(text, "is in transfer "), text);
  });
}

void a_transfer_beside_an_operation() {
  for (const int rank : {0, 1}) {
    for (const char* layout : {"shm", "tcp"}) {
      for (const Call transfer : {receive, send_more_than_a_link_holds}) {
        expect_desync(layout, rank, transfer, reduce_little, "all_reduce");
        expect_desync(layout, rank, transfer, reduce_much, "all_reduce");
        expect_desync(layout, rank, transfer, meet, "barrier");
      }
    }
    expect_desync("shm", rank, receive_from_any, reduce_little, "all_reduce");
    expect_desync("shm", rank, receive, await_broadcast, "broadcast");
    a_late_transfer(rank);
  }
}

// Rank 2 is in all_reduce long before the others, who first have a transfer between them.
void a_transfer_before_an_operation(Call first_receive) {
  run_ranks(3, layout_named("shm"), [&](int rank, cc_comm* comm) {
    const float data[6] = {};
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      EXPECT(cc_send(data, 6, CC_FLOAT32, 1, comm, nullptr) == CC_SUCCESS, last_error(comm));
      EXPECT(cc_send(data, 6, CC_FLOAT32, 1, comm, nullptr) == CC_SUCCESS, last_error(comm));
    }
    if (rank == 1) {
      EXPECT(first_receive(0, comm) == CC_SUCCESS, last_error(comm));
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // rank 0 is in all_reduce by now
      EXPECT(receive(0, comm) == CC_SUCCESS, last_error(comm));
    }
    EXPECT(reduce_much(0, comm) == CC_SUCCESS, last_error(comm));
  });
}

// The others only write in the operation in which rank 0 only writes, and are four operations ahead when it comes.
void an_early_crowd() {
  constexpr int kRanks = 5;
  Meeting meeting(kRanks);
  run_ranks(kRanks, layout_named("shm"), [&](int rank, cc_comm* comm) {
    float data[6] = {};
    EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
    if (rank != 0) {
      EXPECT(cc_reduce(data, data, 6, CC_FLOAT32, CC_SUM, 0, comm, nullptr) == CC_SUCCESS, last_error(comm));
      for (int root = 1; root < kRanks; ++root) {
        EXPECT(cc_broadcast(data, data, 6, CC_FLOAT32, root, comm, nullptr) == CC_SUCCESS, last_error(comm));
      }
    }
    meeting.wait();
    if (rank != 0) return;
    const cc_result result = cc_broadcast(data, data, 6, CC_FLOAT32, 0, comm, nullptr);
    const std::string text = last_error(comm);
    EXPECT(result == CC_ERROR_DESYNC, result, " ", text);
    EXPECT(contains(text, "operation 2: broadcast(") && contains(text, "operation 2: reduce("), text);
  });
}

}  // namespace

void desync() {
  an_early_crowd();
  a_transfer_beside_an_operation();
  a_transfer_before_an_operation(receive);
  a_transfer_before_an_operation(receive_from_any);
  for (const char* layout : {"shm", "tcp"}) {
    for (const Collective& collective : collectives()) {
      expect_desync(layout, collective, Arguments{7, CC_FLOAT32, CC_SUM, 0}, "count=6", "count=7");
      expect_desync(layout, collective, Arguments{6, CC_INT32, CC_SUM, 0}, "f32", "i32");
      if (collective.reduces) {
        expect_desync(layout, collective, Arguments{6, CC_FLOAT32, CC_MAX, 0}, "sum", "max");
      }
      if (collective.rooted) another_root(layout, collective);
      another_order(layout, collective);
    }
    std::vector<Collective> all = collectives();
    for (const Collective& collective : of_uneven_blocks()) {
      expect_desync(layout, collective, Arguments{7, CC_FLOAT32, CC_SUM, 0}, "=", "=");
      expect_desync(layout, collective, Arguments{6, CC_INT32, CC_SUM, 0}, "f32", "i32");
      all.push_back(collective);
    }
    for (size_t first = 0; first < all.size(); ++first) {
      for (size_t second = first + 1; second < all.size(); ++second) {
        another_collective(layout, all[first], all[second]);
        another_collective(layout, all[second], all[first]);
      }
    }
  }
}

}  // namespace test
