// A thousand communicators and a hundred thousand operations leave nothing behind.
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "own_process.h"
#include "ranks.h"

namespace test {
namespace {

// What an allocator may keep for itself; a leak of 16 bytes per operation would be more.
constexpr long kFlatBytes = 1024 * 1024;

int mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

long resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  long all = 0;
  long resident = 0;
  statm >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

struct Held {
  int descriptors;
  int threads;
  int maps;
};

Held held() { return {entries("/proc/self/fd"), entries("/proc/self/task"), mappings()}; }

void come_and_go(const char* layout) {
  run_ranks(2, layout_named(layout),
            [](int, cc_comm* comm) { EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm)); });
}

// The thread of the rendezvous ends on its own, a moment after the last rank; on a loaded machine that may be seconds.
Held settled(const Held& goal) {
  Held now = held();
  for (int i = 0; i < 2000 && (now.descriptors > goal.descriptors || now.threads > goal.threads); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    now = held();
  }
  return now;
}

void a_thousand_cycles() {
  for (int i = 0; i < 20; ++i) come_and_go(i % 2 == 0 ? "shm" : "tcp");
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const Held before = held();
  for (int i = 0; i < 1000; ++i) come_and_go(i % 2 == 0 ? "shm" : "tcp");
  const Held after = settled(before);
  EXPECT(after.descriptors <= before.descriptors, before.descriptors, " descriptors became ", after.descriptors);
  EXPECT(after.threads <= before.threads, before.threads, " threads became ", after.threads);
  // Stacks of threads and arenas of the allocator come and go; a mapping per cycle would be a thousand.
  EXPECT(after.maps <= before.maps + 50, before.maps, " mappings became ", after.maps);
}

void mixed_operations(cc_comm* comm, int rank, int rounds) {
  std::vector<float> data(16);
  std::vector<float> all(32);
  for (int i = 0; i < rounds; ++i) {
    EXPECT(cc_all_reduce(data.data(), data.data(), 16, CC_FLOAT32, CC_MAX, comm, nullptr) == CC_SUCCESS,
           last_error(comm));
    if (i % 10 != 0) continue;
    EXPECT(cc_all_gather(data.data(), all.data(), 16, CC_FLOAT32, comm, nullptr) == CC_SUCCESS, last_error(comm));
    EXPECT(cc_broadcast(data.data(), data.data(), 16, CC_FLOAT32, 1, comm, nullptr) == CC_SUCCESS, last_error(comm));
    EXPECT(cc_group_start(comm) == CC_SUCCESS, last_error(comm));
    EXPECT(cc_send(data.data(), 16, CC_FLOAT32, 1 - rank, comm, nullptr) == CC_SUCCESS, last_error(comm));
    EXPECT(cc_recv(all.data(), 16, CC_FLOAT32, 1 - rank, comm, nullptr) == CC_SUCCESS, last_error(comm));
    EXPECT(cc_group_end(comm) == CC_SUCCESS, last_error(comm));
  }
}

// The rings between ranks are touched page by page, which must not be taken for growth.
void touch_the_rings(cc_comm* comm, int rank) {
  std::vector<float> data(256 * 1024);
  std::vector<float> other(data.size());
  EXPECT(cc_group_start(comm) == CC_SUCCESS, last_error(comm));
  EXPECT(cc_send(data.data(), data.size(), CC_FLOAT32, 1 - rank, comm, nullptr) == CC_SUCCESS, last_error(comm));
  EXPECT(cc_recv(other.data(), other.size(), CC_FLOAT32, 1 - rank, comm, nullptr) == CC_SUCCESS, last_error(comm));
  EXPECT(cc_group_end(comm) == CC_SUCCESS, last_error(comm));
}

void memory_stays_flat(const char* layout, int rounds) {
  Meeting meeting(2);
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    touch_the_rings(comm, rank);
    mixed_operations(comm, rank, 2000);
    meeting.wait();
    const long before = resident_bytes();
    meeting.wait();
    mixed_operations(comm, rank, rounds);
    meeting.wait();
    EXPECT(resident_bytes() - before < kFlatBytes, "grew by ", resident_bytes() - before, " bytes");
    meeting.wait();
  });
}

}  // namespace

void endurance() {
  a_thousand_cycles();
  memory_stays_flat("shm", 80000);
  memory_stays_flat("tcp", 10000);
}

}  // namespace test
