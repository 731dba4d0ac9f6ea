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

size_t words_bytes(int ranks) { return (sizeof(FoldWords) * static_cast<size_t>(ranks) + 4095) / 4096 * 4096; }

}  // namespace

HostPool::HostPool(const Meeting& meeting)
    : mapping_(meeting, words_bytes(meeting.size()) + kRankBytes * static_cast<size_t>(meeting.size()),
               "host memory for chunks") {
  void* device = nullptr;
  cudaError_t code = cudaHostRegister(mapping_.get(), mapping_.bytes(), cudaHostRegisterMapped);
  const bool registered = code == cudaSuccess;
  if (registered) code = cudaHostGetDevicePointer(&device, mapping_.get(), 0);
  if (code == cudaSuccess && device != mapping_.get()) code = cudaErrorNotSupported;
  cudaGetLastError();
  try {
    agree(meeting, text_of("pinning host memory", code));
  } catch (const Error&) {
    if (registered) cudaHostUnregister(mapping_.get());
    throw;
  }
  device_ = static_cast<char*>(device) + words_bytes(meeting.size());
}

HostPool::~HostPool() { cudaHostUnregister(mapping_.get()); }

FoldWords* HostPool::words(int rank) const { return static_cast<FoldWords*>(mapping_.get()) + rank; }

char* HostPool::input(int rank, int slot) const {
  return device_ + static_cast<size_t>(rank) * kRankBytes + static_cast<size_t>(slot) * kSlotBytes;
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
