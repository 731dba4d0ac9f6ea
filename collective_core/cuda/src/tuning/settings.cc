#include "tuning/settings.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <fstream>

#include "common/env.h"
#include "common/error.h"
#include "error.h"

namespace ccore_cuda {
namespace {

// A class that is called once in a training step is decided within 120 steps of three candidates.
constexpr int64_t kWarmupCalls = 20;
constexpr int64_t kProfileCalls = 16;
constexpr uint32_t kMargin = 16;

int64_t number(const char* name, int64_t fallback, int64_t least, int64_t most) {
  try {
    return ccore::env_integer(name, fallback, least, most);
  } catch (const ccore::Error& error) {
    throw Error(error.code(), error.what());
  }
}

// Of the kernel module, which names the release of the driver; CUDA's number names only its interface.
std::string driver_version() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string text(40, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  text.resize(std::min(text.size(), text.find_first_of("\n ")));
  int interface = 0;
  cudaDriverGetVersion(&interface);
  return (text.empty() ? "unknown" : text) + " (CUDA " + std::to_string(interface) + ")";
}

}  // namespace

TuningSettings tuning_settings() {
  TuningSettings settings{};
  settings.plan.warmup = static_cast<uint32_t>(number("CCORE_AUTOTUNE_WARMUP_CALLS", kWarmupCalls, 0, 1000000));
  settings.plan.rounds = static_cast<uint32_t>(
      std::min(number("CCORE_AUTOTUNE_PROFILE_CALLS", kProfileCalls, 1, 1000000), static_cast<int64_t>(kMostRounds)));
  settings.plan.margin = kMargin;
  settings.keeps = number("CCORE_CACHE_DISABLE", 1, 0, 1) == 0;
  settings.updates = number("CCORE_CACHE_UPDATE_DISABLE", 1, 0, 1) == 0;
  return settings;
}

bool autotune_is_on() { return number("CCORE_AUTOTUNE", 0, 0, 1) == 1; }

ccore::CacheIdentity identity_of_choices(const std::string& description, const std::string& rival) {
  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "asking for the current device");
  check(cudaGetDeviceProperties(&properties, device), "asking for the properties of the device");
  const std::string machine = std::string(properties.name) + ", compute capability " +
                              std::to_string(properties.major) + "." + std::to_string(properties.minor) + ", driver " +
                              driver_version();
  return {machine, std::string("collective_core ") + cc_version_string() + ", " + rival, description};
}

}  // namespace ccore_cuda
