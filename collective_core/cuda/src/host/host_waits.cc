#include "host/host_waits.h"

#include "clock.h"
#include "error.h"

namespace ccore_cuda {

struct HostWaits::Words {
  uint32_t begun;
  uint32_t ended;
};

HostWaits::HostWaits() {
  check(cudaHostAlloc(reinterpret_cast<void**>(&words_), sizeof(Words), cudaHostAllocMapped), "allocating words");
  *words_ = {};
}

HostWaits::~HostWaits() { cudaFreeHost(words_); }

void HostWaits::begin(cudaStream_t stream) {
  list_.write(&words_->begun, queued_.fetch_add(1) + 1);
  list_.queue(stream);
}

void HostWaits::end(cudaStream_t stream) {
  list_.write(&words_->ended, queued_.load());
  list_.queue(stream);
}

bool HostWaits::is_idle() const { return __atomic_load_n(&words_->ended, __ATOMIC_ACQUIRE) == queued_.load(); }

bool HostWaits::is_overdue(int64_t timeout_ns) {
  const uint32_t begun = __atomic_load_n(&words_->begun, __ATOMIC_ACQUIRE);
  if (begun == __atomic_load_n(&words_->ended, __ATOMIC_ACQUIRE)) {
    seen_ns_ = 0;
    return false;
  }
  if (seen_ns_ == 0 || begun != seen_) {
    seen_ = begun;
    seen_ns_ = now_ns();
    return false;
  }
  return now_ns() - seen_ns_ > timeout_ns;
}

}  // namespace ccore_cuda
