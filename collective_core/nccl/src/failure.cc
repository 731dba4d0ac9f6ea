#include "failure.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ccore_nccl {
namespace {

// NCCL's callers keep the pointer without a lock, so that a text is never freed. Failures are few.
std::atomic<const char*> latest{nullptr};

}  // namespace

Result fail(Result code, const std::string& text) {
  const char* debug = std::getenv("NCCL_DEBUG");
  if (debug != nullptr && *debug != '\0' && std::strcmp(debug, "VERSION") != 0) {
    std::fprintf(stderr, "collective_core: %s\n", text.c_str());
  }
  if (const char* kept = strdup(("collective_core: " + text).c_str())) latest.store(kept, std::memory_order_release);
  return code;
}

Result code_of(cc_result result) {
  switch (result) {
    case CC_SUCCESS:
      return kSuccess;
    case CC_IN_PROGRESS:
      return kInProgress;
    case CC_ERROR_INVALID_ARGUMENT:
      return kInvalidArgument;
    case CC_ERROR_INVALID_USAGE:
    case CC_ERROR_DESYNC:
      return kInvalidUsage;
    case CC_ERROR_SYSTEM:
      return kSystemError;
    case CC_ERROR_REMOTE:
    case CC_ERROR_TIMEOUT:
    case CC_ERROR_ABORTED:
      return kRemoteError;
    case CC_ERROR_INTERNAL:
      break;
  }
  return kInternalError;
}

const char* failure_text() { return latest.load(std::memory_order_acquire); }

}  // namespace ccore_nccl
