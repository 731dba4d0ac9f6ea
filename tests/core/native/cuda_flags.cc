// The words by which GPU kernels wait for each other, with a thread for each block: packets in two buffers, headers,
// the barrier around peers' buffers, transfers, the epochs and their wrap-around, and aborts.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "protocol/flags.h"
#include "protocol/layout.h"
#include "protocol/transfers.h"

namespace test {
namespace {

using namespace ccore_cuda;

struct AtomicMemory {
  static void store(Packet* to, const Packet& value) {
    __atomic_store_n(&to->low, value.low, __ATOMIC_RELAXED);
    __atomic_store_n(&to->high, value.high, __ATOMIC_RELAXED);
  }
  static Packet load(const Packet* from) {
    return {__atomic_load_n(&from->low, __ATOMIC_RELAXED), __atomic_load_n(&from->high, __ATOMIC_RELAXED)};
  }
  static void store_release(uint32_t* to, uint32_t value) { __atomic_store_n(to, value, __ATOMIC_RELEASE); }
  static uint32_t load_acquire(const uint32_t* from) { return __atomic_load_n(from, __ATOMIC_ACQUIRE); }
};

class AbortWatch {
 public:
  explicit AbortWatch(const std::atomic<bool>* aborted) : aborted_(aborted) { begin(); }
  // The time for one operation.
  void begin() { end_ = std::chrono::steady_clock::now() + std::chrono::seconds(90); }
  bool ends(int) {
    std::this_thread::yield();
    // A word that never comes is a failure of the test, not a hang.
    return aborted_->load(std::memory_order_relaxed) || std::chrono::steady_clock::now() > end_;
  }

 private:
  const std::atomic<bool>* aborted_;
  std::chrono::steady_clock::time_point end_;
};

// The end of a kernel, which all of its blocks reach before the next one begins.
class EndOfKernel {
 public:
  explicit EndOfKernel(int blocks) : blocks_(blocks) {}
  void arrive() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int kernel = kernel_;
    if (++arrived_ == blocks_) {
      arrived_ = 0;
      ++kernel_;
      all_.notify_all();
    } else {
      all_.wait(lock, [&] { return kernel != kernel_; });
    }
  }

 private:
  const int blocks_;
  int arrived_ = 0, kernel_ = 0;
  std::mutex mutex_;
  std::condition_variable all_;
};

constexpr int kRanks = 3, kBlocks = 2, kOperations = 1500;
constexpr uint32_t kPackets = 5, kElements = 7;
constexpr uint32_t kStart = 0xfffffffdu;
static_assert(kBlocks <= kTransferBlocks, "each block makes transfers");

// Memory that peers use directly in a two-shot operation; races on it are what a sanitizer looks for.
struct Buffers {
  uint64_t input[kBlocks][kRanks][kElements];
  uint64_t output[kBlocks][kRanks][kElements];
  uint64_t sent[kBlocks][kElements];
};

struct World {
  std::vector<std::vector<RegionPart>> parts{kRanks, std::vector<RegionPart>(kRanks)};
  std::vector<std::vector<BlockWords>> words{kRanks, std::vector<BlockWords>(kBlocks)};
  std::vector<Buffers> buffers{kRanks};
  std::vector<Control> controls{kRanks, initial_control(kStart)};
  std::atomic<bool> aborted{false};
  std::atomic<int> wrong{0}, ended{0};
};

uint64_t value(int operation, int rank, int block, uint32_t at) {
  return (static_cast<uint64_t>(operation) * 1000003 + static_cast<uint64_t>(rank) * 8191 + at * 131 +
          static_cast<uint64_t>(block)) *
         0x9e3779b97f4a7c15u;
}

// A block of a rank through all operations. The rank `absent` leaves before operation `absent_at`.
class Block {
 public:
  Block(World* world, int rank, int block)
      : world_(*world),
        control_(world->controls[static_cast<size_t>(rank)]),
        rank_(rank),
        block_(block),
        watch_(&world->aborted) {}

  bool run(int operation) {
    watch_.begin();
    const int kind = operation / 4 % 6;
    epoch_ = control_.epochs[block_];
    if (kind == 5) return transfer(operation);
    const bool ended = kind < 2    ? packets(operation, -1)
                       : kind == 2 ? packets(operation, operation / 4 % kRanks)
                                   : two_shot(operation);
    control_.epochs[block_] = epoch_after(epoch_);
    return ended;
  }

 private:
  RegionPart& part(int of, int peer) { return world_.parts[static_cast<size_t>(of)][static_cast<size_t>(peer)]; }

  BlockWords& words(int of) { return world_.words[static_cast<size_t>(of)][static_cast<size_t>(block_)]; }

  bool header(uint64_t data, bool publishes) {
    const uint32_t buffer = buffer_of(epoch_);
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank_) continue;
      send_packet<AtomicMemory>(&words(peer).headers[buffer][rank_][kCall], data, epoch_);
      if (publishes) announce<AtomicMemory>(&words(peer).begun[rank_], epoch_);
    }
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank_) continue;
      const BlockWords& own = words(rank_);
      uint64_t theirs = 0;
      if (!receive_packet<AtomicMemory>(&own.headers[buffer][peer][kCall], epoch_, &theirs, &watch_, peer)) {
        return false;
      }
      if (publishes && !await<AtomicMemory>(&own.begun[peer], epoch_, &watch_, peer)) return false;
      if (theirs != data) ++world_.wrong;
    }
    return true;
  }

  // Each rank's packets to all, or those of root.
  bool packets(int operation, int root) {
    const uint32_t buffer = buffer_of(epoch_);
    for (uint32_t i = 0; i < kPackets && (root < 0 || root == rank_); ++i) {
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == rank_) continue;
        send_packet<AtomicMemory>(&part(peer, rank_).packets[buffer][block_][i], value(operation, rank_, block_, i),
                                  epoch_);
      }
    }
    for (uint32_t i = 0; i < kPackets; ++i) {
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == rank_ || (root >= 0 && peer != root)) continue;
        uint64_t data = 0;
        if (!receive_packet<AtomicMemory>(&part(rank_, peer).packets[buffer][block_][i], epoch_, &data, &watch_,
                                          peer)) {
          return false;
        }
        if (data != value(operation, peer, block_, i)) ++world_.wrong;
      }
    }
    return header(static_cast<uint64_t>(operation), false);
  }

  bool two_shot(int operation) {
    Buffers& own = world_.buffers[static_cast<size_t>(rank_)];
    for (int share = 0; share < kRanks; ++share) {
      for (uint32_t i = 0; i < kElements; ++i) own.input[block_][share][i] = value(operation, rank_, share, i);
    }
    // One rank has a gate, as if its call alone were asynchronous.
    const bool has_gate = block_ == 0 && operation % kRanks == rank_;
    if (has_gate && !header(static_cast<uint64_t>(operation), false)) return false;
    if (!header(static_cast<uint64_t>(operation), true)) return false;
    for (uint32_t i = 0; i < kElements; ++i) {
      uint64_t sum = 0;
      for (const Buffers& one : world_.buffers) sum += one.input[block_][rank_][i];
      for (Buffers& one : world_.buffers) one.output[block_][rank_][i] = sum;
    }
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != rank_) announce<AtomicMemory>(&words(peer).done[rank_], epoch_);
    }
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != rank_ && !await<AtomicMemory>(&words(rank_).done[peer], epoch_, &watch_, peer)) return false;
    }
    for (int share = 0; share < kRanks; ++share) {
      for (uint32_t i = 0; i < kElements; ++i) {
        uint64_t sum = 0;
        for (int rank = 0; rank < kRanks; ++rank) sum += value(operation, rank, share, i);
        if (own.output[block_][share][i] != sum) ++world_.wrong;
      }
    }
    return true;
  }

  // To the next rank, and from the one before. The last rank only sends, so that not all take part alike.
  bool transfer(int operation) {
    const int next = (rank_ + 1) % kRanks, before = (rank_ + kRanks - 1) % kRanks;
    uint32_t& sent = control_.sent[next][block_];
    uint32_t& received = control_.received[before][block_];
    const uint64_t bytes = 8 * kElements + static_cast<uint64_t>(operation);
    if (next != kRanks - 1) {
      auto& memory = world_.buffers[static_cast<size_t>(rank_)].sent[block_];
      for (uint32_t i = 0; i < kElements; ++i) memory[i] = value(operation, rank_, block_, i);
      send_mail<AtomicMemory>(&part(next, rank_).transfer, block_, reinterpret_cast<uint64_t>(memory), bytes, sent);
    }
    if (rank_ != kRanks - 1) {
      uint64_t address = 0, said = 0;
      if (!receive_mail<AtomicMemory>(part(rank_, before).transfer, block_, &address, &said, received, &watch_,
                                      before)) {
        return false;
      }
      if (said != bytes) {
        ++world_.wrong;
        return false;
      }
      for (uint32_t i = 0; i < kElements; ++i) {
        if (reinterpret_cast<const uint64_t*>(address)[i] != value(operation, before, block_, i)) ++world_.wrong;
      }
      acknowledge<AtomicMemory>(&part(before, rank_).transfer, block_, received);
      received = epoch_after(received);
    }
    if (next != kRanks - 1) {
      if (!await_acknowledgement<AtomicMemory>(part(rank_, next).transfer, block_, sent, &watch_, next)) return false;
      sent = epoch_after(sent);
    }
    return true;
  }

  World& world_;
  Control& control_;
  const int rank_, block_;
  AbortWatch watch_;
  uint32_t epoch_ = 0;
};

// absent < 0: all ranks do all operations. Else the others wait for that rank until they are aborted.
void soak(int absent, int absent_at) {
  World world;
  std::vector<std::unique_ptr<EndOfKernel>> ends;
  for (int rank = 0; rank < kRanks; ++rank) ends.push_back(std::make_unique<EndOfKernel>(kBlocks));
  std::vector<std::thread> threads;
  std::atomic<int> waiting{0};
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int number = 0; number < kBlocks; ++number) {
      threads.emplace_back([&, rank, number] {
        Block block(&world, rank, number);
        std::minstd_rand random(static_cast<unsigned>(rank * 17 + number));
        bool ended = true;
        for (int operation = 0; operation < kOperations && !(rank == absent && operation == absent_at); ++operation) {
          if (operation == absent_at) ++waiting;
          // A block that fails goes on to the end of its kernel; the next kernel does nothing.
          if (ended) ended = block.run(operation);
          ends[static_cast<size_t>(rank)]->arrive();
          if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
        }
        if (ended) ++world.ended;
      });
    }
  }
  if (absent >= 0) {
    while (waiting.load() < (kRanks - 1) * kBlocks) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    world.aborted = true;
  }
  for (auto& thread : threads) thread.join();
  EXPECT(world.wrong == 0, world.wrong.load());
  // Without the absent rank no block ends its operation.
  EXPECT(world.ended == (absent < 0 ? kRanks : 1) * kBlocks, world.ended.load());
}

}  // namespace

void cuda_flags() {
  EXPECT(epoch_after(0xffffffffu) == kFirstEpoch, epoch_after(0xffffffffu));
  EXPECT(buffer_of(epoch_after(0xffffffffu)) != buffer_of(0xffffffffu), "two epochs with one buffer");
  soak(-1, -1);
  soak(1, 40);
}

}  // namespace test
