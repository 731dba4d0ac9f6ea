#include "host/host_fold.h"

#include <algorithm>

#include "error.h"
#include "host/fold_from_host.h"
#include "kernels/arguments.h"

namespace ccore_cuda {
namespace {

// Smaller chunks would not fill PCIe.
constexpr size_t kLeastChunkBytes = size_t{512} << 10;
constexpr size_t kPackBytes = 16;
// Further than any chunk that is queued.
constexpr uint32_t kFar = 0x20000000;
constexpr uint32_t FoldWords::* kWords[] = {&FoldWords::given, &FoldWords::folded, &FoldWords::taken};

void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, kind, stream), "copying between the GPU and the host");
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

HostFold::HostFold(const Meeting& meeting, bool takes_turns) : meeting_(meeting), takes_turns_(takes_turns) {
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

void HostFold::all_reduce(const char* send, char* recv, size_t count, cc_dtype dtype, cc_redop op,
                          cudaStream_t stream) {
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
