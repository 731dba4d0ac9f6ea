#include "group.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "error.h"
#include "fold.h"

namespace ccore_cuda {
namespace {

// To this size each rank reduces everything itself, which saves a round of waiting; above it each reduces a block and
// collects the others'. Two ranks read as much either way.
constexpr size_t kOneShotBytes = size_t{1} << 20;
constexpr size_t kFirstStagingBytes = size_t{4} << 20;
constexpr int64_t kSettleNs = 1000000000;
constexpr int64_t kLookNs = 1000000;  // a wait of this length is spent looking; later the thread sleeps

void copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copying on the GPU");
}

// A copy of two rows runs on a copy engine, which does not wait for the process' time slice of the GPU: between two
// ranks that saves one of two changes of slice (140 us on an H200). It is slower than a copy by the multiprocessors,
// so more ranks lose by it.
void copy_by_engine(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  const size_t row = bytes / 2;
  if (row == 0 || bytes % 2 != 0) return copy(to, from, bytes, stream);
  check(cudaMemcpy2DAsync(to, row, from, row, row, 2, cudaMemcpyDeviceToDevice, stream), "copying on the GPU");
}

int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

}  // namespace

// What all ranks must agree on.
struct Group::Call {
  uint64_t number;
  uint64_t count;
  int32_t dtype;
  int32_t op;
};

Group::Group(cc_comm* comm, size_t most_staging_bytes, uint32_t first_epoch)
    : meeting_(comm), staging_(meeting_), most_staging_bytes_(most_staging_bytes), epoch_(first_epoch) {
  check(cudaEventCreateWithFlags(&ended_, cudaEventDisableTiming), "making an event");
  check(cudaStreamCreateWithFlags(&rescue_, cudaStreamNonBlocking), "making a stream");
  staging_.reserve(std::min(kFirstStagingBytes, most_staging_bytes_));
  // Every word begins at the epoch before the first.
  std::vector<uint32_t> first(sizeof(Words) / sizeof(uint32_t), first_epoch);
  check(cudaMemcpy(staging_.words(meeting_.rank()), first.data(), sizeof(Words), cudaMemcpyHostToDevice),
        "setting the words of the staging memory");
  // cudaMemcpy returns before pageable memory has arrived, and must not overwrite what a peer writes.
  check(cudaDeviceSynchronize(), "setting the words of the staging memory");
  meeting_.exchange(0);
}

Group::~Group() {
  settle();
  if (ended_) cudaEventDestroy(ended_);
  if (rescue_) cudaStreamDestroy(rescue_);
}

void Group::all_reduce(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op, cudaStream_t stream,
                       int64_t timeout_ms) {
  if (!folds(dtype, op)) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, "this reduction of this data type is not available on the GPU");
  }
  if (!broken_.empty()) throw Error(CC_ERROR_TIMEOUT, broken_);
  const Call call{calls_++, count, dtype, op};
  meet(call, timeout_ms);
  if (count == 0) return;
  const size_t element = element_bytes(dtype);
  size_t wanted = staging_.input_bytes();
  while (wanted < std::min(count * element, most_staging_bytes_)) wanted *= 2;
  if (wanted > staging_.input_bytes()) {
    settle();
    staging_.reserve(std::min(wanted, most_staging_bytes_));
  }
  const size_t most = staging_.input_bytes() / element;
  for (size_t begin = 0; begin < count; begin += most) {
    queue_part(static_cast<const char*>(send) + begin * element, static_cast<char*>(recv) + begin * element,
               std::min(most, count - begin), call, stream);
  }
  check(cudaEventRecord(ended_, stream), "recording the end of an operation");
}

void Group::meet(const Call& call, int64_t timeout_ms) const {
  const auto all = meeting_.exchange(call, timeout_ms);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (std::memcmp(&all[rank], &call, sizeof call) == 0) continue;
    const auto text = [](const Call& one) {
      return "call " + std::to_string(one.number) + " of " + std::to_string(one.count) + " elements, type " +
             std::to_string(one.dtype) + ", operator " + std::to_string(one.op);
    };
    throw Error(CC_ERROR_DESYNC, "rank " + std::to_string(rank) + " made " + text(all[rank]) + "; rank " +
                                     std::to_string(meeting_.rank()) + " made " + text(call));
  }
}

void Group::queue_part(const char* send, char* recv, size_t count, const Call& call, cudaStream_t stream) {
  const int size = meeting_.size(), self = meeting_.rank();
  const auto dtype = static_cast<cc_dtype>(call.dtype);
  const auto op = static_cast<cc_redop>(call.op);
  const size_t element = element_bytes(dtype), bytes = count * element;
  // The peers have read what the last part left in the staging.
  await(&Words::done, epoch_);
  words_.queue(stream);
  ++epoch_;
  (size == 2 ? copy_by_engine : copy)(staging_.input(self), send, bytes, stream);
  announce(&Words::ready);
  await(&Words::ready, epoch_);
  words_.queue(stream);
  if (size <= 2 || bytes <= kOneShotBytes) {
    fold(inputs_from(0), recv, count, dtype, op, size, stream);
  } else {
    // Blocks of whole packs, so that all of them are aligned in the staging.
    const size_t pack = 16 / element;
    const size_t share = (count / static_cast<size_t>(size) + pack) / pack * pack;
    const auto begin_of = [&](int rank) { return std::min(count, share * static_cast<size_t>(rank)); };
    const size_t begin = begin_of(self);
    fold(inputs_from(begin * element), staging_.result(self), begin_of(self + 1) - begin, dtype, op, size, stream);
    announce(&Words::reduced);
    await(&Words::reduced, epoch_);
    words_.queue(stream);
    for (int rank = 0; rank < size; ++rank) {
      const size_t from = begin_of(rank), part = (begin_of(rank + 1) - from) * element;
      if (part == 0) continue;
      copy(recv + from * element, staging_.result(rank), part, stream);
    }
  }
  announce(&Words::done);
  words_.queue(stream);
}

void Group::announce(uint32_t (Words::*words)[kMostRanks]) {
  for (int rank = 0; rank < meeting_.size(); ++rank) {
    words_.write(&(staging_.words(rank)->*words)[meeting_.rank()], epoch_);
  }
}

void Group::await(uint32_t (Words::*words)[kMostRanks], uint32_t epoch) {
  for (int rank = 0; rank < meeting_.size(); ++rank) {
    if (rank != meeting_.rank()) words_.wait(&(staging_.words(meeting_.rank())->*words)[rank], epoch);
  }
}

Sources Group::inputs_from(size_t offset_bytes) const {
  Sources sources{};
  sources.count = meeting_.size();
  for (int rank = 0; rank < sources.count; ++rank) sources.memory[rank] = staging_.input(rank) + offset_bytes;
  return sources;
}

void Group::wait(int64_t timeout_ms) {
  const int64_t begin = now_ns();
  while (true) {
    const cudaError_t code = cudaEventQuery(ended_);
    if (code == cudaSuccess) break;
    if (code != cudaErrorNotReady) check(code, "waiting for an operation");
    const int64_t waited = now_ns() - begin;
    if (waited > timeout_ms * 1000000) {
      broken_ =
          "the operation did not end within " + std::to_string(timeout_ms) + " ms, waiting for " + missing_ranks();
      release();
      throw Error(CC_ERROR_TIMEOUT, broken_);
    }
    if (waited < kLookNs) {
      sched_yield();
    } else {
      const timespec moment{0, 50000};
      nanosleep(&moment, nullptr);
    }
  }
  if (!broken_.empty()) throw Error(CC_ERROR_TIMEOUT, broken_);
}

bool Group::read_words(Words* words) const {
  return cudaMemcpyAsync(words, staging_.words(meeting_.rank()), sizeof *words, cudaMemcpyDeviceToHost, rescue_) ==
             cudaSuccess &&
         cudaStreamSynchronize(rescue_) == cudaSuccess;
}

// Waits, but not for long, until the peers have read what this rank's staging holds: it is to be freed.
void Group::settle() {
  if (!broken_.empty() || cudaEventSynchronize(ended_) != cudaSuccess) return;
  const int64_t begin = now_ns();
  while (now_ns() - begin < kSettleNs) {
    Words seen{};
    if (!read_words(&seen)) return;
    bool settled = true;
    for (int rank = 0; rank < meeting_.size(); ++rank) {
      settled = settled && (rank == meeting_.rank() || static_cast<int32_t>(seen.done[rank] - epoch_) >= 0);
    }
    if (settled) return;
    sched_yield();
  }
}

std::string Group::missing_ranks() const {
  Words seen{};
  if (!read_words(&seen)) return "ranks that cannot be named, for the GPU cannot be read";
  const auto behind = [&](uint32_t word) { return static_cast<int32_t>(word - epoch_) < 0; };
  // Every rank writes its own words too.
  if (behind(seen.ready[meeting_.rank()])) return "the work that this rank had queued before on its stream";
  for (const auto& words : {seen.ready, seen.reduced, seen.done}) {
    std::string names;
    for (int rank = 0; rank < meeting_.size(); ++rank) {
      if (rank != meeting_.rank() && behind(words[rank])) {
        names += (names.empty() ? "rank " : ", rank ") + std::to_string(rank);
      }
    }
    if (!names.empty()) return names;
  }
  return "the GPU itself";
}

// Lets the stream of this rank run to its end: no result of it is valid any more.
void Group::release() {
  std::vector<uint32_t> far(sizeof(Words) / sizeof(uint32_t), epoch_ + 0x20000000);
  cudaMemcpyAsync(staging_.words(meeting_.rank()), far.data(), sizeof(Words), cudaMemcpyHostToDevice, rescue_);
  cudaStreamSynchronize(rescue_);
}

}  // namespace ccore_cuda
