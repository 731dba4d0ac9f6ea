// The memory beyond the caller's buffers is what docs/memory.md says: no more, and not much less. N ranks are N threads, so
// what is measured is that of all ranks of a node.
#include <malloc.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "ranks.h"

namespace test {
namespace {

constexpr long kKiB = 1024;
constexpr long kMiB = 1024 * kKiB;
constexpr long kRanks = 3;
constexpr long kElements = 6 * kMiB;  // f32: 24 MiB
// What an allocator keeps, what the stacks of two threads per rank touch, and the bookkeeping of operations.
constexpr long kSlackBytes = 3 * kMiB;

// Bytes of the line of that name in a file of /proc that counts in kB.
long counted(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (word != name) continue;
    long kb = 0;
    file >> kb;
    return kb * kKiB;
  }
  fail(__FILE__, __LINE__, path, " has no ", name);
}

long resident() { return counted("/proc/self/status", "VmRSS:"); }
long peak() { return counted("/proc/self/status", "VmHWM:"); }
// Shared memory, every page once however often it is mapped.
long shared() { return counted("/proc/self/smaps_rollup", "Pss_Shmem:"); }

struct Buffers {
  std::vector<float> send = std::vector<float>(static_cast<size_t>(kElements), 1.0F);
  std::vector<float> recv = std::vector<float>(static_cast<size_t>(kElements), 1.0F);
};

void all_collectives(int rank, cc_comm* comm, Buffers* buffers) {
  const auto all = static_cast<size_t>(kElements);
  const size_t part = all / static_cast<size_t>(kRanks);
  float* send = buffers->send.data();
  float* recv = buffers->recv.data();
  const auto done = [&](cc_result result) { EXPECT(result == CC_SUCCESS, "rank ", rank, ": ", last_error(comm)); };
  done(cc_all_reduce(send, recv, all, CC_FLOAT32, CC_SUM, comm, nullptr));
  done(cc_broadcast(send, send, all, CC_FLOAT32, 1, comm, nullptr));
  done(cc_reduce(send, recv, all, CC_FLOAT32, CC_MAX, 0, comm, nullptr));
  done(cc_all_gather(send, recv, part, CC_FLOAT32, comm, nullptr));
  done(cc_gather(send, recv, part, CC_FLOAT32, 2, comm, nullptr));
  done(cc_scatter(send, recv, part, CC_FLOAT32, 2, comm, nullptr));
  done(cc_all_to_all(send, recv, part, CC_FLOAT32, comm, nullptr));
  done(cc_reduce_scatter(send, recv, part, CC_FLOAT32, CC_SUM, comm, nullptr));
}

void run(const char* layout, std::vector<Buffers>* buffers, Meeting* meeting, long* shared_bytes) {
  run_ranks(kRanks, layout_named(layout), [&](int rank, cc_comm* comm) {
    for (int round = 0; round < 3; ++round) all_collectives(rank, comm, &(*buffers)[static_cast<size_t>(rank)]);
    meeting->wait();
    if (rank == 0) *shared_bytes = shared();
    meeting->wait();
  });
}

void expect_between(const char* what, long bytes, long least, long most) {
  EXPECT(bytes >= least && bytes <= most, what, ": ", bytes, " bytes, expected ", least, " to ", most);
}

}  // namespace

void memory() {
  // Else the allocator learns from large blocks that were freed to keep them.
  EXPECT(mallopt(M_MMAP_THRESHOLD, 128 * 1024) == 1, "mallopt");
  std::vector<Buffers> buffers(kRanks);
  Meeting meeting(kRanks);
  const long before = resident();
  EXPECT(peak() - before < kSlackBytes, "something else was larger before: ", peak());
  // Two blocks of reduce_scatter, and one buffer for each connection to another rank.
  const long scratch = kRanks * 2 * (kElements * 4 / kRanks);
  const long staging = kRanks * (kRanks - 1) * 256 * kKiB;
  long shared_bytes = 0;
  run("tcp", &buffers, &meeting, &shared_bytes);
  expect_between("peak over TCP", peak() - before, scratch, scratch + staging + kSlackBytes);
  expect_between("shared memory of TCP", shared_bytes, 0, 64 * kKiB);
  // The window of each connection; its pages are touched only where frames overtake others.
  EXPECT(setenv("CCORE_TCP_STREAMS", "4", 1) == 0, "setenv");
  const long windows = kRanks * (kRanks - 1) * (8 * kMiB + 4 * 4 * kKiB);
  run("tcp", &buffers, &meeting, &shared_bytes);
  expect_between("peak over four connections", peak() - before, scratch, scratch + windows + kSlackBytes);
  EXPECT(unsetenv("CCORE_TCP_STREAMS") == 0, "unsetenv");
  // Slots and rings.
  const long slots = 2 * kRanks * kMiB;
  const long rings = kRanks * (kRanks - 1) * 256 * kKiB;
  run("shm", &buffers, &meeting, &shared_bytes);
  expect_between("shared memory", shared_bytes, (slots + rings) / 4, slots + rings + 64 * kKiB);
  EXPECT(shared() <= 64 * kKiB, "left behind: ", shared());
  // What stays when all is destroyed.
  expect_between("after the last one", resident() - before, -kSlackBytes, kSlackBytes);
}

}  // namespace test
