#include "environment.h"

#include <cerrno>
#include <cmath>
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
  const char* const text = std::getenv("CCORE_CUDA_PATH");
  const std::string value = text ? text : "";
  if (value.empty() || value == "auto") return CC_CUDA_PATH_AUTO;
  if (value == "stream") return CC_CUDA_PATH_STREAM;
  if (value == "kernel") return CC_CUDA_PATH_KERNEL;
  if (value == "host") return CC_CUDA_PATH_HOST;
  throw Error(CC_ERROR_INVALID_ARGUMENT, "CCORE_CUDA_PATH=" + value + ": expected auto, stream, kernel or host");
}

}  // namespace

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
  size_t needed = 0;
  if (cc_dump_config(comm, nullptr, 0, &needed) != CC_SUCCESS) return 300000;
  std::string text(needed, '\0');
  if (cc_dump_config(comm, text.data(), text.size(), &needed) != CC_SUCCESS) return 300000;
  const size_t at = text.find("CCORE_TIMEOUT_S=");
  if (at == std::string::npos) return 300000;
  const double seconds = std::strtod(text.c_str() + at + 16, nullptr);
  return seconds > 0 ? static_cast<int64_t>(std::ceil(seconds * 1000)) : 300000;
}

}  // namespace ccore_cuda
