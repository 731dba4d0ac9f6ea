#include "node.h"

#include <unistd.h>

#include <memory>
#include <numeric>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "ranks.h"
#include "transport/shm/cross_memory.h"

namespace test {
namespace {

// Counts, and moves nothing.
class Counter : public ccore::Link {
 public:
  size_t try_send(const std::byte*, size_t) override { return 0; }
  ccore::Bytes peek(size_t) override { return {}; }
  void consume(size_t) override {}
  size_t try_recv(std::byte*, size_t) override { return 0; }
  int fd() const override { return -1; }
  const char* name() const override { return "counter"; }
};

// Of threads: the process of every other rank is this one.
ccore::CrossMemory memory_of_others(int rank, int nranks) {
  std::vector<ccore::CrossMemory::Peer> peers(static_cast<size_t>(nranks));
  for (int peer = 0; peer < nranks; ++peer) {
    if (peer == rank) continue;
    peers[static_cast<size_t>(peer)] = {getpid(), ccore::open_process(getpid()), "rank " + std::to_string(peer)};
  }
  return ccore::CrossMemory(std::move(peers));
}

// Of all that the ranks do: a little less than the case has (CMakeLists.txt).
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || defined(CCORE_EMULATED)
constexpr int64_t kDeadlineMs = 550000;
#else
constexpr int64_t kDeadlineMs = 100000;
#endif

}  // namespace

void run_node(int nranks, size_t slot_bytes, const std::function<void(const ccore::Context&)>& body) {
  const ccore::Segment segment = ccore::Segment::create(nranks, 4096, slot_bytes);
  std::vector<int> local_of(static_cast<size_t>(nranks));
  std::iota(local_of.begin(), local_of.end(), 0);
  run_threads(nranks, [&](int rank) {
    ccore::Arena arena(segment, rank, local_of, false);
    std::vector<Counter> links(static_cast<size_t>(nranks));
    const ccore::Deadline deadline = ccore::Deadline::in_ms(kDeadlineMs);
    int waiting = -1;
    ccore::WaitLadder ladder(segment.doorbell(rank), -1, false, [&] {
      if (deadline.passed()) throw ccore::Error(CC_ERROR_TIMEOUT, "rank waits for rank " + std::to_string(waiting));
    });
    ccore::Context context{rank,
                           nranks,
                           [&](int peer) -> ccore::Link& { return links[static_cast<size_t>(peer)]; },
                           &ladder,
                           &waiting,
                           &waiting,
                           {},
                           [](int) { return false; },
                           [](int) { return false; }};
    context.node_arena = &arena;
    context.arena = &arena;
    ccore::CrossMemory memory = memory_of_others(rank, nranks);
    context.cross_memory = &memory;
    body(context);
  });
}

}  // namespace test
