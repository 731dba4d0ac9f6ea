#include "memory/pinned_mapping.h"

#include <string>

#include "error.h"

namespace ccore_cuda {
namespace {

struct Outcome {
  char error[160];
};

}  // namespace

PinnedMapping::PinnedMapping(const Meeting& meeting, size_t bytes, const char* what) : mapping_(meeting, bytes, what) {
  // Each rank has a mapping of its own, threads of one process too.
  void* device = nullptr;
  cudaError_t code =
      cudaHostRegister(mapping_.get(), mapping_.bytes(), cudaHostRegisterMapped | cudaHostRegisterPortable);
  const bool registered = code == cudaSuccess;
  if (registered) code = cudaHostGetDevicePointer(&device, mapping_.get(), 0);
  if (code == cudaSuccess && device != mapping_.get()) code = cudaErrorNotSupported;
  cudaGetLastError();
  Outcome outcome{};
  if (code != cudaSuccess) put(outcome.error, std::string("pinning ") + what + ": " + reason_of(code));
  try {
    require_all(meeting.exchange(outcome));
  } catch (const Error&) {
    if (registered) cudaHostUnregister(mapping_.get());
    throw;
  }
}

PinnedMapping::~PinnedMapping() { cudaHostUnregister(mapping_.get()); }

}  // namespace ccore_cuda
