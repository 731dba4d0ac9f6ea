#include "pipeline/cpu_reduce.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/clock.h"
#include "common/dtype.h"
#include "common/env.h"
#include "common/error.h"
#include "pipeline/chunk_pass.h"

namespace ccore {
namespace {

constexpr int64_t kChunkBytes = 4 * 1024 * 1024;  // the partition of BytePS (Jiang et al., OSDI 2020)
constexpr int64_t kMostChunkBytes = int64_t{1} << 40;
constexpr int32_t kChunks = 3;  // one that comes, one that is reduced, one that goes
constexpr int32_t kMostChunks = 1024;
constexpr int64_t kDrainMs = 1000;

void refuse_unless(bool condition, const char* text) {
  if (!condition) throw Error(CC_ERROR_INVALID_ARGUMENT, text);
}

class RunMark {
 public:
  explicit RunMark(std::atomic<bool>* running) : running_(running) {
    if (running_->exchange(true, std::memory_order_acq_rel)) {
      throw Error(CC_ERROR_INVALID_USAGE, "this cpu_reduce is running; take one handle for each thread");
    }
  }
  ~RunMark() { running_->store(false, std::memory_order_release); }
  RunMark(const RunMark&) = delete;
  RunMark& operator=(const RunMark&) = delete;

 private:
  std::atomic<bool>* running_;
};

}  // namespace

CpuReduceSettings cpu_reduce_settings_from(const cc_cpu_reduce_options* options) {
  cc_cpu_reduce_options given{};
  if (options) {
    refuse_unless(options->size >= sizeof(size_t) && options->size <= 4096, "cc_cpu_reduce_options.size is not set");
    std::memcpy(&given, options, std::min(options->size, sizeof given));
  }
  refuse_unless(given.chunk_bytes >= 0 && given.chunk_bytes <= kMostChunkBytes,
                "cc_cpu_reduce_options.chunk_bytes is not between 0 and 1 TiB");
  refuse_unless(given.chunks >= 0 && given.chunks <= kMostChunks,
                "cc_cpu_reduce_options.chunks is not between 0 and 1024");
  const int64_t chunk_bytes = given.chunk_bytes > 0
                                  ? given.chunk_bytes
                                  : env_integer("CCORE_CPU_REDUCE_CHUNK_BYTES", kChunkBytes, 1, kMostChunkBytes);
  return {static_cast<size_t>(chunk_bytes), static_cast<size_t>(given.chunks > 0 ? given.chunks : kChunks)};
}

CpuReduce::CpuReduce(Communicator* communicator, const CpuReduceSettings& settings, std::unique_ptr<CopyEngine> engine)
    : communicator_(communicator),
      settings_(settings),
      staging_(settings.chunks, settings.chunk_bytes),
      slots_(settings.chunks),
      engine_(std::move(engine)) {
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i].memory = staging_.buffer(i);
}

CpuReduce::~CpuReduce() {
  if (!settled()) staging_.leave_mapped();
}

void CpuReduce::run(const void* device_send, void* device_recv, size_t count, cc_dtype dtype, cc_redop op,
                    int64_t timeout_ms) {
  const RunMark mark(&running_);
  const size_t element = dtype_size(dtype);
  if (settings_.chunk_bytes < element) {
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                format("chunk_bytes is %zu, less than an element of %s, which has %zu; create the handle with more",
                       settings_.chunk_bytes, dtype_name(dtype), element));
  }
  if (!settled()) {
    throw Error(CC_ERROR_INVALID_USAGE, "copies of an operation that failed are still under way");
  }
  const ChunkedData data{static_cast<const std::byte*>(device_send),
                         static_cast<std::byte*>(device_recv),
                         count,
                         settings_.chunk_bytes / element,
                         dtype,
                         op};
  Operation operation;
  operation.kind = Kind::cpu_reduce;
  operation.count = count;
  operation.dtype = dtype;
  operation.redop = op;
  operation.shape = data.chunk_elements;
  try {
    communicator_->run(operation, timeout_ms,
                       [&](const Context& context) { ChunkPass(context, engine_.get(), &slots_, data).run(); });
  } catch (...) {
    drain();
    throw;
  }
}

bool CpuReduce::settled() {
  for (StagingSlot& slot : slots_) {
    if (!slot.copying) continue;
    try {
      slot.copying = !engine_->poll(slot.copy);
    } catch (const Error&) {
      slot.copying = false;  // the operation has failed before
    }
  }
  return std::none_of(slots_.begin(), slots_.end(), [](const StagingSlot& slot) { return slot.copying; });
}

void CpuReduce::drain() {
  const Deadline patience = Deadline::in_ms(kDrainMs);
  const timespec moment{0, 1000000};
  while (!settled() && !patience.passed()) nanosleep(&moment, nullptr);
}

}  // namespace ccore
