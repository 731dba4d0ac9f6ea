#include "service.h"

#include <cuda_runtime_api.h>

#include <string>

#include "capture_mode.h"
#include "clock.h"
#include "error.h"

namespace ccore_cuda {
namespace {

constexpr int64_t kBusyLookNs = 1000000;
constexpr int64_t kIdleLookNs = 100000000;
constexpr int64_t kBusyAfterWorkNs = 1000000000;
constexpr uint32_t kFar = 0x20000000;

uint32_t load(const uint32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

}  // namespace

int64_t Service::now_ns() { return ccore_cuda::now_ns(); }

Service::Service(const Watched& watched, uint32_t first_epoch)
    : watched_(watched), queued_(first_epoch), mapping_([this] { map(); }), watching_([this] { watch(); }) {}

Service::~Service() {
  ends_.store(true);
  wake_all(watched_.board);
  mapping_.join();
  watching_.join();
}

bool Service::is_busy() const {
  for (const HostWaits* waits : watched_.host_waits) {
    if (!waits->is_idle()) return true;
  }
  return load(&watched_.words->ended) != queued_.load(std::memory_order_acquire) ||
         now_ns() - last_work_ns_.load(std::memory_order_relaxed) < kBusyAfterWorkNs;
}

// An export is news.
void Service::map() {
  cudaSetDevice(watched_.device);
  const RelaxedCapture relaxed;
  while (!ends_.load()) {
    const uint32_t seen = watched_.board->news.load(std::memory_order_acquire);
    try {
      watched_.buffers->map_news();
    } catch (const Error& error) {
      watched_.failure->fail(error.result(), error.what());
    }
    if (!ends_.load()) wait_for_news(watched_.board, seen, kIdleLookNs);
  }
}

void Service::watch() {
  while (!ends_.load()) {
    const uint32_t seen = watched_.board->news.load(std::memory_order_acquire);
    carry_failures();
    const bool busy = is_busy();
    sleeps_long_.store(!busy);
    if (!ends_.load()) wait_for_news(watched_.board, seen, busy || is_busy() ? kBusyLookNs : kIdleLookNs);
  }
}

void Service::carry_failures() {
  watched_.failure->poll();
  cc_result state = CC_SUCCESS;
  cc_comm_get_async_error(watched_.comm, &state);
  // A rank that has nothing left to do may leave before this one.
  if (state != CC_SUCCESS && state != CC_IN_PROGRESS && watched_.buffers->first_that_left() < 0) {
    watched_.failure->fail(state, std::string("the communicator failed: ") + cc_last_error(watched_.comm));
  }
  if (watched_.waits) watch_streams();
  for (HostWaits* waits : watched_.host_waits) end_overdue(waits);
}

// The deadline of an operation begins when its stream begins to wait, not when it was queued.
void Service::watch_streams() {
  const uint32_t begun = load(&watched_.words->begun), ended = load(&watched_.words->ended);
  if (watched_.failure->failed()) {
    if (ended != queued_.load(std::memory_order_acquire)) release_streams();
    return;
  }
  if (begun == ended) {
    begun_ns_ = 0;
    return;
  }
  if (begun != begun_ || begun_ns_ == 0) {
    begun_ = begun;
    begun_ns_ = now_ns();
  } else if (now_ns() - begun_ns_ > watched_.timeout_ns) {
    const StreamOperation operation = operations_[begun % kRemembered];
    watched_.failure->fail(CC_ERROR_TIMEOUT, "the deadline passed in " + text_of_call(operation.call) +
                                                 " while this rank, " + std::to_string(watched_.rank) +
                                                 ", waited for " + ranks_behind(operation));
    release_streams();
  }
}

void Service::end_overdue(HostWaits* waits) const {
  if (!watched_.failure->failed() && waits->is_overdue(watched_.timeout_ns)) {
    watched_.failure->fail(CC_ERROR_TIMEOUT, std::string("the deadline passed in ") + waits->name() +
                                                 " while this rank, " + std::to_string(watched_.rank) +
                                                 ", waited for " + waits->ranks_behind());
  }
  if (watched_.failure->failed() && !waits->is_idle()) waits->release();
}

// Lets the waiting streams run to their end, whose kernels then find the abort word. Peers that are alive may overwrite the
// words, so this is repeated.
void Service::release_streams() const {
  const uint32_t far = queued_.load(std::memory_order_acquire) + kFar;
  for (int rank = 0; rank < watched_.size; ++rank) {
    StreamWaits* const waits = waits_of(watched_.waits, watched_.size, watched_.rank, rank);
    for (uint32_t* word : {&waits->ready, &waits->done, &waits->sent, &waits->received}) {
      __atomic_store_n(word, far, __ATOMIC_RELEASE);
    }
  }
}

std::string Service::ranks_behind(const StreamOperation& operation) const {
  std::string ready, done;
  const auto add = [](std::string* names, int rank) {
    *names += (names->empty() ? "rank " : ", rank ") + std::to_string(rank);
  };
  for (int rank = 0; rank < watched_.size; ++rank) {
    if ((operation.peers >> rank & 1) == 0) continue;
    const StreamWaits* const waits = waits_of(watched_.waits, watched_.size, watched_.rank, rank);
    const auto is_behind = [&](const uint32_t* word) {
      return !operation.has_epoch || static_cast<int32_t>(load(word) - operation.epoch) < 0;
    };
    if (is_behind(&waits->ready)) add(&ready, rank);
    if (is_behind(&waits->done)) add(&done, rank);
  }
  return !ready.empty() ? ready : !done.empty() ? done : "the GPU itself";
}

}  // namespace ccore_cuda
