// Communicators come and go without a trace, several live side by side, and one rank needs no peer.
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "cases.h"
#include "expect.h"
#include "own_process.h"
#include "ranks.h"

namespace test {
namespace {

int segments_mapped() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += contains(line, "memfd:collective_core");
  return count;
}

void reduce_once(cc_comm* comm, int nranks) {
  int value = 1;
  EXPECT(cc_all_reduce(&value, &value, 1, CC_INT32, CC_SUM, comm, nullptr) == CC_SUCCESS, last_error(comm));
  EXPECT(value == nranks, value);
}

void cycle(const char* layout) {
  run_ranks(3, layout_named(layout), [](int, cc_comm* comm) { reduce_once(comm, 3); });
}

// The thread of the rendezvous ends on its own, a moment after the last rank; on a loaded machine that may be seconds.
void settle(int fds, int threads) {
  for (int i = 0; i < 2000 && (entries("/proc/self/fd") > fds || entries("/proc/self/task") > threads); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void fifty_cycles_leak_nothing() {
  cycle("shm");
  cycle("tcp");
  std::this_thread::sleep_for(std::chrono::seconds(1));  // what still ends may then only make these less
  const int fds = entries("/proc/self/fd");
  const int threads = entries("/proc/self/task");
  for (int i = 0; i < 25; ++i) {
    cycle("shm");
    cycle("tcp");
  }
  settle(fds, threads);
  EXPECT(entries("/proc/self/fd") <= fds, fds, " descriptors before, ", entries("/proc/self/fd"), " after");
  EXPECT(entries("/proc/self/task") <= threads, threads, " threads before, ", entries("/proc/self/task"), " after");
  EXPECT(segments_mapped() == 0, segments_mapped(), " mappings are left");
}

void failed_inits_leak_nothing() {
  const int fds = entries("/proc/self/fd");
  const int threads = entries("/proc/self/task");
  for (int i = 0; i < 3; ++i) {
    cc_unique_id id;
    EXPECT(cc_get_unique_id(&id) == CC_SUCCESS, cc_last_error(nullptr));
    cc_config config{};
    config.size = sizeof config;
    config.init_timeout_ms = 300;
    cc_comm* comm = nullptr;
    EXPECT(cc_comm_init_rank(&comm, 2, &id, 0, &config) == CC_ERROR_TIMEOUT, cc_last_error(nullptr));
  }
  settle(fds, threads);
  EXPECT(entries("/proc/self/fd") <= fds, fds, " descriptors before, ", entries("/proc/self/fd"), " after");
  EXPECT(entries("/proc/self/task") <= threads, "a thread is left");
}

void side_by_side() {
  run_ranks(2, layout_named("shm"), [](int rank, cc_comm* first) {
    cc_unique_id id{};
    if (rank == 0) EXPECT(cc_get_unique_id(&id) == CC_SUCCESS, cc_last_error(nullptr));
    EXPECT(cc_broadcast(&id, &id, sizeof id, CC_UINT8, 0, first, nullptr) == CC_SUCCESS, last_error(first));
    cc_comm* second = join(id, 1 - rank, 2, layout_named("tcp"));
    for (int i = 0; i < 20; ++i) {
      reduce_once(first, 2);
      reduce_once(second, 2);
    }
    // One of them fails; the other lives on.
    EXPECT(cc_comm_abort(second) == CC_SUCCESS, "abort");
    reduce_once(first, 2);
    EXPECT(cc_comm_destroy(second) == CC_SUCCESS, "destroy");
    reduce_once(first, 2);
  });
}

void queries() {
  run_ranks(4, layout_named("mixed"), [](int rank, cc_comm* comm) {
    int value = -1;
    EXPECT(cc_comm_rank(comm, &value) == CC_SUCCESS && value == rank, value);
    EXPECT(cc_comm_size(comm, &value) == CC_SUCCESS && value == 4, value);
    for (int peer = 0; peer < 4; ++peer) {
      cc_peer_info info{};
      info.size = sizeof info;
      EXPECT(cc_comm_peer_info(comm, peer, &info) == CC_SUCCESS, cc_last_error(nullptr));
      const char* transport = peer == rank ? "self" : (peer < 2) == (rank < 2) ? "shm" : "tcp";
      EXPECT(std::strcmp(info.transport, transport) == 0, "to ", peer, ": ", info.transport);
      EXPECT(info.rank == peer && info.node == peer / 2 && info.local_rank == peer % 2 && info.local_size == 2, peer);
      EXPECT(std::strlen(info.host) > 0 && info.pid > 0, "host and pid");
    }
  });
}

}  // namespace

void lifecycle() {
  queries();
  side_by_side();
  fifty_cycles_leak_nothing();
  failed_inits_leak_nothing();
}

}  // namespace test
