#include "environment.h"

#include <cerrno>
#include <cstdlib>
#include <string>

#include "error.h"
#include "tuning/settings.h"

namespace ccore_cuda {
namespace {

int64_t number(const char* name, int64_t unset, int64_t least, int64_t most) {
  const char* const text = std::getenv(name);
  if (!text || !*text) return unset;
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text, &end, 10);
  if (*end || errno || value < least || value > most) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, std::string(name) + "=" + text + ": expected a number from " +
                                               std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

cc_cuda_path path() {
  const std::string value = path_text();
  if (value.empty() || value == "auto") return CC_CUDA_PATH_AUTO;
  if (value == "stream") return CC_CUDA_PATH_STREAM;
  if (value == "kernel") return CC_CUDA_PATH_KERNEL;
  if (value == "host") return CC_CUDA_PATH_HOST;
  throw Error(CC_ERROR_INVALID_ARGUMENT, "CCORE_CUDA_PATH=" + value + ": expected auto, stream, kernel or host");
}

}  // namespace

std::string path_text() {
  const char* const text = std::getenv("CCORE_CUDA_PATH");
  return text ? text : "";
}

Environment read_environment() {
  Environment environment{};
  environment.path = path();
  environment.staging_bytes = number("CCORE_CUDA_STAGING_BYTES", int64_t{256} << 20, 65536, int64_t{1} << 40);
  environment.packet_bytes = number("CCORE_CUDA_PACKET_BYTES", 0, 0, int64_t{1} << 30);
  environment.blocks = static_cast<int32_t>(number("CCORE_CUDA_BLOCKS", 0, 0, 64));
  environment.uses_descriptors = static_cast<int32_t>(number("CCORE_CUDA_DESCRIPTORS", 1, 0, 1));
  environment.autotune = autotune_is_on();
  return environment;
}

int64_t timeout_of(const cc_comm* comm) {
  cc_limits limits{};
  limits.size = sizeof limits;
  if (cc_get_limits(comm, &limits) != CC_SUCCESS) throw Error(CC_ERROR_INTERNAL, cc_last_error(nullptr));
  return limits.timeout_ms;
}

}  // namespace ccore_cuda
