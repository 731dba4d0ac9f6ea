#include "host/host_pool.h"

#include <string>

#include "error.h"

namespace ccore_cuda {
namespace {

// The largest block of a chunk is that of two ranks, rounded up to a pack.
constexpr size_t kResultBytes = kFoldChunkBytes / 2 + 4096;
constexpr size_t kSlotBytes = kFoldChunkBytes + kResultBytes;
constexpr size_t kRankBytes = kFoldSlots * kSlotBytes;

struct Outcome {
  char error[160];
};

// Throws on all ranks if one has an error.
void agree(const Meeting& meeting, const std::string& error) {
  Outcome outcome{};
  put(outcome.error, error);
  require_all(meeting.exchange(outcome));
}

std::string text_of(const char* what, cudaError_t code) {
  return code == cudaSuccess ? std::string() : std::string(what) + ": " + cudaGetErrorString(code);
}

size_t words_bytes(int ranks) {
  return (sizeof(FoldFailure) + sizeof(FoldWords) * static_cast<size_t>(ranks) + 4095) / 4096 * 4096;
}

}  // namespace

HostPool::HostPool(const Meeting& meeting)
    : memory_(meeting, words_bytes(meeting.size()) + kRankBytes * static_cast<size_t>(meeting.size()),
              "host memory for chunks"),
      data_(memory_.get() + words_bytes(meeting.size())) {}

FoldWords* HostPool::words(int rank) const {
  return reinterpret_cast<FoldWords*>(memory_.get() + sizeof(FoldFailure)) + rank;
}

FoldFailure* HostPool::failure() const { return reinterpret_cast<FoldFailure*>(memory_.get()); }

char* HostPool::input(int rank, int slot) const {
  return data_ + static_cast<size_t>(rank) * kRankBytes + static_cast<size_t>(slot) * kSlotBytes;
}

char* HostPool::result(int rank, int slot) const { return input(rank, slot) + kFoldChunkBytes; }

CpuPool::CpuPool(const Meeting& meeting, size_t bytes) {
  std::string error;
  if (cc_mem_alloc(&memory_, bytes) != CC_SUCCESS) error = cc_last_error(nullptr);
  if (error.empty()) error = text_of("pinning host memory", cudaHostRegister(memory_, bytes, cudaHostRegisterDefault));
  if (error.empty()) {
    error = text_of("making an event", cudaEventCreateWithFlags(&arrived_, cudaEventDisableTiming));
  }
  cudaGetLastError();
  agree(meeting, error);
  cc_mem_handle handle = 0;
  int direct = 0;
  // Without it the communicator copies, and is still right.
  if (cc_mem_register(meeting.comm(), memory_, bytes, &handle, &direct, nullptr) != CC_SUCCESS) {
    throw Error(CC_ERROR_SYSTEM, cc_last_error(nullptr));
  }
}

CpuPool::~CpuPool() {
  if (arrived_) cudaEventDestroy(arrived_);
  cudaHostUnregister(memory_);
  cc_mem_free(memory_);
}

}  // namespace ccore_cuda
