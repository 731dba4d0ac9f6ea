// Communicators made of others, and the end that all agree on.
#include "engine/split.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "ranks.h"

namespace test {
namespace {

using ccore::SplitWish;
using Members = std::vector<int>;

void members_are_ordered() {
  const std::vector<SplitWish> wishes = {{1, 5}, {0, 0}, {1, -2}, {CC_SPLIT_NOCOLOR, 0}, {1, 5}, {0, 0}};
  EXPECT(ccore::split_members(wishes, 0) == (Members{2, 0, 4}), "color 1");
  EXPECT(ccore::split_members(wishes, 5) == (Members{1, 5}), "color 0");
  EXPECT(ccore::split_members(wishes, 3).empty(), "no color");
}

int rank_in(cc_comm* comm) {
  int rank = -1;
  EXPECT(cc_comm_rank(comm, &rank) == CC_SUCCESS, cc_last_error(nullptr));
  return rank;
}

int sum_over(cc_comm* comm, int value) {
  EXPECT(cc_all_reduce(&value, &value, 1, CC_INT32, CC_SUM, comm, nullptr) == CC_SUCCESS, last_error(comm));
  return value;
}

// Even ranks backwards, odd ranks as they are, rank 4 in no part; the parts work side by side with the whole.
void parts_work(const std::string& layout) {
  run_ranks(5, layout_named(layout), [&](int rank, cc_comm* comm) {
    cc_comm* part = nullptr;
    const int color = rank == 4 ? CC_SPLIT_NOCOLOR : rank % 2;
    EXPECT(cc_comm_split(comm, color, rank % 2 == 0 ? -rank : 0, nullptr, &part) == CC_SUCCESS, last_error(comm));
    EXPECT((part == nullptr) == (rank == 4), "rank ", rank);
    for (int i = 0; i < 3; ++i) {
      EXPECT(sum_over(comm, 1) == 5, "the whole");
      if (part) EXPECT(sum_over(part, rank) == (rank % 2 == 0 ? 2 : 4), "the part of rank ", rank);
    }
    if (part) EXPECT(rank_in(part) == (rank == 2 || rank == 1 ? 0 : 1), "rank ", rank, " is ", rank_in(part));
    // A part can be split again, and lives longer than what it came from.
    cc_comm* alone = nullptr;
    if (part) {
      EXPECT(cc_comm_split(part, rank, 0, nullptr, &alone) == CC_SUCCESS, last_error(part));
      EXPECT(sum_over(alone, rank) == rank, "alone");
      EXPECT(cc_comm_destroy(part) == CC_SUCCESS, "destroy");
      EXPECT(sum_over(alone, rank) == rank, "alone");
      EXPECT(cc_comm_destroy(alone) == CC_SUCCESS, "destroy");
    }
    EXPECT(sum_over(comm, rank) == 10, "the whole");
  });
}

void settings_are_inherited() {
  Layout layout = layout_named("tcp");
  layout.timeout_ms = 3000;  // of all that follows: threads of a busy machine come late too
  Meeting meeting(2);
  run_ranks(2, layout, [&](int rank, cc_comm* comm) {
    cc_comm* same = nullptr;
    cc_comm* other = nullptr;
    EXPECT(cc_comm_split(comm, 0, 0, nullptr, &same) == CC_SUCCESS, last_error(comm));
    cc_config config{};
    config.size = sizeof config;
    config.transport = CC_TRANSPORT_SHM;
    EXPECT(cc_comm_split(comm, 0, 0, &config, &other) == CC_SUCCESS, last_error(comm));
    cc_peer_info info{};
    info.size = sizeof info;
    EXPECT(cc_comm_peer_info(same, 1 - rank, &info) == CC_SUCCESS && info.transport == std::string("tcp"), "tcp");
    EXPECT(cc_comm_peer_info(other, 1 - rank, &info) == CC_SUCCESS && info.transport == std::string("shm"), "shm");
    if (rank == 0) EXPECT(cc_barrier(same, nullptr) == CC_ERROR_TIMEOUT, last_error(same));
    if (rank == 0) EXPECT(contains(last_error(same), "3.000 s"), last_error(same));
    meeting.wait();
    // The failure of a part is its own.
    EXPECT(sum_over(other, 1) == 2 && sum_over(comm, 1) == 2, "the others live");
    EXPECT(cc_comm_destroy(same) == CC_SUCCESS && cc_comm_destroy(other) == CC_SUCCESS, "destroy");
  });
}

void bad_splits() {
  run_ranks(2, layout_named("shm"), [&](int rank, cc_comm* comm) {
    cc_comm* part = nullptr;
    EXPECT(cc_comm_split(comm, -2, 0, nullptr, &part) == CC_ERROR_INVALID_ARGUMENT, "a negative color");
    EXPECT(cc_comm_split(comm, 0, 0, nullptr, nullptr) == CC_ERROR_INVALID_ARGUMENT, "nowhere to store");
    EXPECT(cc_comm_split(nullptr, 0, 0, nullptr, &part) == CC_ERROR_INVALID_ARGUMENT, "no communicator");
    const cc_result result = rank == 0 ? cc_comm_split(comm, 0, 0, nullptr, &part) : cc_barrier(comm, nullptr);
    EXPECT(result == CC_ERROR_DESYNC && part == nullptr, "got ", result);
    EXPECT(contains(last_error(comm), "split()") && contains(last_error(comm), "barrier()"), last_error(comm));
  });
}

// Rank 0 comes late; no rank is through before it, and the rank that leaves first disturbs no other.
void finalize_waits_for_all(const std::string& layout) {
  std::atomic<bool> called{false};
  run_ranks(3, layout_named(layout), [&](int rank, cc_comm* comm) {
    EXPECT(sum_over(comm, 1) == 3, "sum");
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      called = true;
    }
    EXPECT(cc_comm_finalize(comm, nullptr) == CC_SUCCESS, last_error(comm));
    EXPECT(called, "rank ", rank, " was through before rank 0 had called it");
    if (rank == 1) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    cc_result state = CC_IN_PROGRESS;
    EXPECT(cc_comm_get_async_error(comm, &state) == CC_SUCCESS && state == CC_SUCCESS, last_error(comm));
    EXPECT(cc_barrier(comm, nullptr) == CC_ERROR_INVALID_USAGE, "an operation after the end");
    EXPECT(contains(cc_last_error(nullptr), "finalized"), cc_last_error(nullptr));
    EXPECT(cc_group_start(comm) == CC_ERROR_INVALID_USAGE, "a group after the end");
    EXPECT(cc_comm_finalize(comm, nullptr) == CC_SUCCESS, "twice");
    EXPECT(cc_comm_abort(comm) == CC_SUCCESS, "an abort after the end");
    EXPECT(cc_comm_get_async_error(comm, &state) == CC_SUCCESS && state == CC_SUCCESS, "it has nothing to end");
  });
}

void finalize_notices_what_was_forgotten(const std::string& layout) {
  Meeting meeting(2);
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    const int value = 1;
    if (rank == 0) EXPECT(cc_send(&value, 1, CC_INT32, 1, comm, nullptr) == CC_SUCCESS, last_error(comm));
    const cc_result result = cc_comm_finalize(comm, nullptr);
    meeting.wait();
    if (rank == 0) return;  // its part was over before rank 1 looked
    EXPECT(result == CC_ERROR_DESYNC, "got ", result);
    EXPECT(contains(last_error(comm), "finalize()") && contains(last_error(comm), "transfer 1 from rank 0"),
           last_error(comm));
  });
}

}  // namespace

void split() {
  members_are_ordered();
  for (const char* layout : {"shm", "tcp", "cyclic"}) {
    parts_work(layout);
    finalize_waits_for_all(layout);
  }
  finalize_notices_what_was_forgotten("shm");
  finalize_notices_what_was_forgotten("tcp");
  settings_are_inherited();
  bad_splits();
}

}  // namespace test
