#include "host/host_fold.h"

#include <sched.h>

#include <algorithm>

#include "clock.h"
#include "error.h"
#include "host/fold_from_host.h"
#include "kernels/arguments.h"
#include "short_float.h"

namespace ccore_cuda {
namespace {

// Measured on an H200 without MPS: above it the kernel's time slices cost less than the CPUs' additions.
constexpr size_t kMostBytesOnCpus = size_t{2} << 20;
// Smaller chunks would not fill PCIe.
constexpr size_t kLeastChunkBytes = size_t{512} << 10;
// Without MPS, smaller copies to the device wait for the process' time slice; two rows go by a copy engine.
constexpr size_t kLeastPlainCopyBytes = size_t{32} << 10;
constexpr size_t kPackBytes = 16;
// Further than any chunk that is queued.
constexpr uint32_t kFar = 0x20000000;
constexpr uint32_t FoldWords::* kWords[] = {&FoldWords::given, &FoldWords::folded, &FoldWords::taken};

void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, kind, stream), "copying between the GPU and the host");
}

void copy_small_to_device(char* to, const char* from, size_t bytes, cudaStream_t stream) {
  const size_t row = bytes / 2;
  if (row > 0) {
    check(cudaMemcpy2DAsync(to, row, from, row, row, 2, cudaMemcpyHostToDevice, stream), "copying to the GPU");
  }
  copy(to + 2 * row, from + 2 * row, bytes - 2 * row, cudaMemcpyHostToDevice, stream);
}

// The CPUs round the sum of each two ranks to the type; kernels add all ranks in fp32, and round once.
bool cpus_round_partial_sums(cc_dtype dtype, cc_redop op, int ranks) {
  return is_short_float(dtype) && op != CC_MIN && op != CC_MAX && ranks > 2;
}

void make_stream(cudaStream_t* stream) {
  check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "making a stream");
}

}  // namespace

// A chunk: the same elements on all ranks.
struct HostFold::Part {
  const char* send;
  char* recv;
  size_t count;
  size_t element;
  cc_dtype dtype;
  cc_redop op;
};

HostFold::HostFold(const Meeting& meeting, bool takes_turns, int64_t timeout_ms)
    : meeting_(meeting), takes_turns_(takes_turns), timeout_ns_(timeout_ms * 1000000) {
  make_stream(&in_);
  make_stream(&fold_);
  make_stream(&out_);
  check(cudaEventCreateWithFlags(&moment_, cudaEventDisableTiming), "making an event");
}

HostFold::~HostFold() {
  for (cudaStream_t stream : {in_, fold_, out_}) {
    if (stream) cudaStreamDestroy(stream);
  }
  if (moment_) cudaEventDestroy(moment_);
}

void HostFold::all_reduce(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                          cudaStream_t stream) {
  if (count == 0) return;
  const bool is_small = count * cc_dtype_size(dtype) <= kMostBytesOnCpus;
  if (takes_turns_ && is_small && !cpus_round_partial_sums(dtype, op, meeting_.size())) {
    on_cpus(send, recv, count, dtype, op, stream);
  } else {
    on_gpus(static_cast<const char*>(send), static_cast<char*>(recv), count, dtype, op, stream);
  }
}

void HostFold::on_cpus(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op, cudaStream_t stream) {
  if (!cpu_pool_) cpu_pool_ = std::make_unique<CpuPool>(meeting_, kMostBytesOnCpus);
  const size_t bytes = count * cc_dtype_size(dtype);
  char* const memory = cpu_pool_->memory();
  copy(memory, send, bytes, cudaMemcpyDeviceToHost, stream);
  check(cudaEventRecord(cpu_pool_->arrived(), stream), "recording an event");
  await_on_host(cpu_pool_->arrived());
  if (const cc_result result = cc_all_reduce(memory, memory, count, dtype, op, meeting_.comm(), nullptr)) {
    throw Error(result, cc_last_error(nullptr));
  }
  if (bytes < kLeastPlainCopyBytes) {
    copy_small_to_device(static_cast<char*>(recv), memory, bytes, stream);
  } else {
    copy(recv, memory, bytes, cudaMemcpyHostToDevice, stream);
  }
}

void HostFold::await_on_host(cudaEvent_t event) const {
  const int64_t begin = now_ns();
  while (true) {
    const cudaError_t code = cudaEventQuery(event);
    if (code == cudaSuccess) return;
    if (code != cudaErrorNotReady) check(code, "copying to the host");
    if (now_ns() - begin > timeout_ns_) {
      throw Error(CC_ERROR_TIMEOUT, "the GPU of rank " + std::to_string(meeting_.rank()) +
                                        " did not finish the work that was queued before the operation");
    }
    sched_yield();
  }
}

void HostFold::on_gpus(const char* send, char* recv, size_t count, cc_dtype dtype, cc_redop op, cudaStream_t stream) {
  if (!pool_) {
    pool_ = std::make_unique<HostPool>(meeting_);
    shared_.store(pool_.get(), std::memory_order_release);
  }
  HostWaits::begin(stream);
  for (cudaStream_t own : {in_, fold_, out_}) follow(own, stream);
  const size_t element = cc_dtype_size(dtype);
  // Kernels of ranks that take turns cost a time slice each, so that there are few.
  const size_t wished = takes_turns_ ? kFoldChunkBytes : std::max(count * element / 4, kLeastChunkBytes);
  const size_t chunk = std::min(wished, kFoldChunkBytes) / kPackBytes * kPackBytes / element;
  for (size_t begin = 0; begin < count; begin += chunk) {
    queue_chunk({send + begin * element, recv + begin * element, std::min(chunk, count - begin), element, dtype, op});
  }
  for (cudaStream_t own : {in_, fold_, out_}) follow(stream, own);
  const uint64_t call = call_of(Kind::kAllReduce, dtype, op, 0, count);
  start_seal({{&pool_->failure()->failed}, 1, 0, recv, count * element, invalid_value(call)}, stream);
  HostWaits::end(stream);
}

void HostFold::queue_chunk(const Part& part) {
  const int self = meeting_.rank(), size = meeting_.size();
  const uint64_t chunk = ++chunks_;
  const auto number = static_cast<uint32_t>(chunk);
  const auto slot = static_cast<int>(chunk % kFoldSlots);
  const bool reuses = chunk > kFoldSlots;
  const size_t pack = kPackBytes / part.element, ranks = static_cast<size_t>(size);
  const size_t share = ((part.count + ranks - 1) / ranks + pack - 1) / pack * pack;
  const auto begin_of = [&](int rank) {
    return std::min(part.count, share * static_cast<size_t>(rank)) * part.element;
  };
  const size_t begin = begin_of(self), end = begin_of(self + 1), bytes = part.count * part.element;

  if (reuses) await(in_, &FoldWords::folded, number - kFoldSlots);
  char* const input = pool_->input(self, slot);
  copy(input, part.send, begin, cudaMemcpyDeviceToHost, in_);
  copy(input + end, part.send + end, bytes - end, cudaMemcpyDeviceToHost, in_);
  announce(in_, &FoldWords::given, number);

  await(fold_, &FoldWords::given, number);
  if (reuses) await(fold_, &FoldWords::taken, number - kFoldSlots);
  if (end > begin) {
    FoldFromHost fold{};
    for (int rank = 0; rank < size; ++rank) fold.sources[rank] = pool_->input(rank, slot) + begin;
    fold.sources[self] = part.send + begin;
    fold.output = part.recv + begin;
    fold.result = pool_->result(self, slot);
    fold.count = (end - begin) / part.element;
    fold.rank = self;
    fold.size = size;
    fold.op = part.op;
    start_fold_from_host(fold, part.dtype, fold_);
  }
  announce(fold_, &FoldWords::folded, number);

  await(out_, &FoldWords::folded, number);
  for (int rank = 0; rank < size; ++rank) {
    if (rank == self) continue;
    copy(part.recv + begin_of(rank), pool_->result(rank, slot), begin_of(rank + 1) - begin_of(rank),
         cudaMemcpyHostToDevice, out_);
  }
  announce(out_, &FoldWords::taken, number);
}

void HostFold::await(cudaStream_t stream, uint32_t FoldWords::* word, uint32_t number) {
  for (int rank = 0; rank < meeting_.size(); ++rank) {
    if (rank != meeting_.rank()) words_.wait(&(pool_->words(rank)->*word), number);
  }
  words_.queue(stream);
}

void HostFold::announce(cudaStream_t stream, uint32_t FoldWords::* word, uint32_t number) {
  words_.write(&(pool_->words(meeting_.rank())->*word), number);
  words_.queue(stream);
}

void HostFold::release() {
  HostPool* const pool = shared_.load(std::memory_order_acquire);
  if (!pool) return;
  __atomic_store_n(&pool->failure()->failed, 1u, __ATOMIC_RELEASE);
  const uint32_t far = static_cast<uint32_t>(chunks_.load()) + kFar;
  for (int rank = 0; rank < meeting_.size(); ++rank) {
    for (uint32_t FoldWords::* word : kWords) __atomic_store_n(&(pool->words(rank)->*word), far, __ATOMIC_RELEASE);
  }
}

std::string HostFold::ranks_behind() const {
  const HostPool* const pool = shared_.load(std::memory_order_acquire);
  if (!pool) return "";
  const int self = meeting_.rank();
  for (uint32_t FoldWords::* word : kWords) {
    const auto come_to = [&](int rank) { return __atomic_load_n(&(pool->words(rank)->*word), __ATOMIC_ACQUIRE); };
    const auto last = static_cast<uint32_t>(chunks_.load());
    std::string names;
    for (int rank = 0; rank < meeting_.size(); ++rank) {
      // All of this rank's chunks may be queued while the others are at the first.
      const uint32_t own = come_to(self);
      if (rank != self && come_to(rank) != last && static_cast<int32_t>(come_to(rank) - own) <= 0) {
        names += (names.empty() ? "rank " : ", rank ") + std::to_string(rank);
      }
    }
    if (!names.empty()) return names;
  }
  return "";
}

void HostFold::follow(cudaStream_t stream, cudaStream_t leader) {
  check(cudaEventRecord(moment_, leader), "recording an event");
  check(cudaStreamWaitEvent(stream, moment_, 0), "ordering streams");
}

}  // namespace ccore_cuda
