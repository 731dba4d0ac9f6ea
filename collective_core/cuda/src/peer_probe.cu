#include "peer_probe.h"

#include <cuda_runtime_api.h>
#include <sched.h>
#include <sys/random.h>

#include <algorithm>
#include <memory>

#include "clock.h"
#include "device.h"
#include "driver.h"
#include "error.h"
#include "kernels/device_memory.cuh"
#include "memory/owned.h"

namespace ccore_cuda {
namespace {

constexpr int64_t kLimitNs = 20000000000;

// In device memory of each rank.
struct Page {
  uint64_t offered[kMostRanks];    // by its owner, to each peer
  uint64_t found[kMostRanks];      // by its owner, in the page of each peer
  uint64_t by_kernel[kMostRanks];  // written by a kernel of each peer
  uint32_t by_stream[kMostRanks];  // written by a stream of each peer
};

struct Offer {
  cudaIpcMemHandle_t handle;
  uint64_t address;
  uint64_t token;
  int32_t has_handle;
};

// By rank.
struct Marks {
  uint8_t by_kernel[kMostRanks];
  uint8_t by_stream[kMostRanks];
};

// What one rank offers to another, or writes for it: different for each pair, each word and each probe.
uint64_t offered(const Offer& owner, int reader) { return owner.token + 2 * static_cast<uint64_t>(reader); }
uint64_t written(const Offer& owner, int writer) { return owner.token + 2 * static_cast<uint64_t>(writer) + 1; }
uint32_t streamed(const Offer& owner, int writer) { return static_cast<uint32_t>(written(owner, writer) | 1u); }

__global__ void use_page(Page* own, Page* theirs, int self, int peer, uint64_t value) {
  DeviceMemory::store(&own->found[peer], DeviceMemory::load(&theirs->offered[self]));
  DeviceMemory::store(&theirs->by_kernel[self], value);
  DeviceMemory::fence();
}

// The device of a peer as this process counts them; -1 if CUDA_VISIBLE_DEVICES hides it.
int ordinal_of(const RankFacts& peer) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return -1;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) == cudaSuccess && uuid_of(device, properties) == peer.uuid) {
      return device;
    }
  }
  return -1;
}

struct EndOfStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};

class Probe {
 public:
  Probe(const Meeting& meeting, const std::vector<RankFacts>& ranks)
      : meeting_(meeting), ranks_(ranks), self_(meeting.rank()) {
    meeting.all_or_none([&] { make(); });
    offers_ = meeting.exchange(own_offer_);
  }
  ~Probe() { cudaGetLastError(); }  // of a peer that cannot be reached
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // Uses the memory of each peer; by_kernel: what was to be found there was there. All peers at once, since each wait takes
  // a time slice where ranks share a GPU without MPS.
  Marks touch_all() {
    Page* pages[kMostRanks] = {};
    bool started[kMostRanks] = {};
    for (int peer = 0; peer < meeting_.size(); ++peer) {
      if (peer != self_) pages[peer] = map(peer);
    }
    for (int peer = 0; peer < meeting_.size(); ++peer) {
      if (pages[peer]) started[peer] = touch(peer, pages[peer]);
    }
    Marks marks{};
    Page own{};
    const bool has_come = read(&own);
    for (int peer = 0; peer < meeting_.size(); ++peer) {
      const Offer& offer = offers_[static_cast<size_t>(peer)];
      marks.by_kernel[peer] = has_come && started[peer] && own.found[peer] == offered(offer, self_);
      if (pages[peer] && !is_own_process(peer)) cudaIpcCloseMemHandle(pages[peer]);
    }
    return marks;
  }

  // What the peers have written here, when all have come.
  Marks seen() {
    Marks marks{};
    Page page{};
    if (!read(&page)) return marks;
    for (int peer = 0; peer < meeting_.size(); ++peer) {
      marks.by_kernel[peer] = page.by_kernel[peer] == written(own_offer_, peer);
      marks.by_stream[peer] = page.by_stream[peer] == streamed(own_offer_, peer);
    }
    return marks;
  }

 private:
  void make() {
    if (getrandom(&own_offer_.token, sizeof own_offer_.token, 0) != sizeof own_offer_.token) {
      throw Error(CC_ERROR_SYSTEM, "getrandom failed");
    }
    // Not the default stream, which waits for other work of the program.
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "making a stream");
    stream_.reset(made);
    memory_ = std::make_unique<DeviceMemoryBlock>(sizeof(Page), false);
    own_ = memory_->as<Page>();
    Page page{};
    for (int peer = 0; peer < kMostRanks; ++peer) page.offered[peer] = offered(own_offer_, peer);
    check(cudaMemcpyAsync(own_, &page, sizeof page, cudaMemcpyHostToDevice, stream_.get()),
          "preparing the probe of peers");
    check(cudaStreamSynchronize(stream_.get()), "preparing the probe of peers");
    own_offer_.address = reinterpret_cast<uint64_t>(own_);
    own_offer_.has_handle = cudaIpcGetMemHandle(&own_offer_.handle, own_) == cudaSuccess;
    cudaGetLastError();
  }

  const RankFacts& facts(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  bool is_own_process(int rank) const { return facts(rank).process == facts(self_).process; }

  // Unlike <<<>>> with cudaGetLastError, it does not report errors that the program left behind.
  bool touch(int peer, Page* theirs) {
    const Offer& offer = offers_[static_cast<size_t>(peer)];
    int self = self_;
    uint64_t value = written(offer, self_);
    void* arguments[] = {&own_, &theirs, &self, &peer, &value};
    const bool started = cudaLaunchKernel(reinterpret_cast<const void*>(use_page), dim3(1), dim3(1), arguments, 0,
                                          stream_.get()) == cudaSuccess;
    write_from_stream(&theirs->by_stream[self_], streamed(offer, self_));
    return started;
  }

  Page* map(int peer) const {
    const Offer& offer = offers_[static_cast<size_t>(peer)];
    if (!is_own_process(peer)) {
      void* memory = nullptr;
      const bool is_open = offer.has_handle &&
                           cudaIpcOpenMemHandle(&memory, offer.handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess;
      return is_open ? static_cast<Page*>(memory) : nullptr;
    }
    auto* const memory = reinterpret_cast<Page*>(offer.address);
    if (facts(peer).uuid == facts(self_).uuid) return memory;
    const int other = ordinal_of(facts(peer));
    const cudaError_t code = other < 0 ? cudaErrorInvalidDevice : cudaDeviceEnablePeerAccess(other, 0);
    return code == cudaSuccess || code == cudaErrorPeerAccessAlreadyEnabled ? memory : nullptr;
  }

  void write_from_stream(uint32_t* word, uint32_t value) {
    if (!has_stream_operations()) return;
    StreamWords words;
    words.write(word, value);
    try {
      words.queue(stream_.get());
    } catch (const Error&) {
      // The peer does not see the word, which only forbids the path whose streams write to peers.
    }
  }

  bool has_ended() const {
    const int64_t begin = now_ns();
    cudaError_t code = cudaStreamQuery(stream_.get());
    while (code == cudaErrorNotReady && now_ns() - begin < kLimitNs) {
      sched_yield();
      code = cudaStreamQuery(stream_.get());
    }
    return code == cudaSuccess;
  }

  bool read(Page* page) const {
    return cudaMemcpyAsync(page, own_, sizeof *page, cudaMemcpyDeviceToHost, stream_.get()) == cudaSuccess &&
           has_ended();
  }

  const Meeting& meeting_;
  const std::vector<RankFacts>& ranks_;
  const int self_;
  Offer own_offer_{};
  std::vector<Offer> offers_;
  std::unique_ptr<CUstream_st, EndOfStream> stream_;
  std::unique_ptr<DeviceMemoryBlock> memory_;
  Page* own_ = nullptr;
};

}  // namespace

void probe_peers(const Meeting& meeting, RankTable* table) {
  const size_t size = table->ranks.size();
  const auto is_here = [&](const RankFacts& facts) { return facts.node == table->ranks[0].node; };
  // Ranks of several nodes have no path, whatever they reach.
  if (size == 1 || !std::all_of(table->ranks.begin(), table->ranks.end(), is_here)) return;
  Probe probe(meeting, table->ranks);
  const auto touched = meeting.exchange(probe.touch_all());
  const auto seen = meeting.exchange(probe.seen());
  for (size_t a = 0; a < size; ++a) {
    for (size_t b = 0; b < size; ++b) {
      if (a == b) continue;
      table->reaches[a][b] = touched[a].by_kernel[b] && seen[b].by_kernel[a];
      table->signals[a][b] = seen[b].by_stream[a] != 0;
    }
  }
}

}  // namespace ccore_cuda
