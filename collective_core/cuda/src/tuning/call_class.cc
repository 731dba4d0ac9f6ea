#include "tuning/call_class.h"

#include <algorithm>
#include <array>

#include "short_float.h"

namespace ccore_cuda {
namespace {

constexpr std::array<const char*, kCollectives> kNames = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};
constexpr std::array<const char*, kTypeClasses> kTypes = {"any", "32 and 64 bit or integer", "8 and 16 bit float"};
constexpr int kReducing = 2;  // the collectives before this one add

}  // namespace

CallClass class_of_index(int index) {
  return {index / (kTypeClasses * kSizeClasses), index / kSizeClasses % kTypeClasses, index % kSizeClasses};
}

CallClass class_of(int collective, cc_dtype dtype, size_t bytes) {
  CallClass result{collective, 0, 0};
  if (collective < kReducing) result.type = is_short_float(dtype) ? 2 : 1;
  for (size_t rest = bytes; rest > 1; rest >>= 1) ++result.size;
  result.size = std::min(result.size, kSizeClasses - 1);
  return result;
}

const char* name_of_collective(int collective) { return kNames[static_cast<size_t>(collective)]; }

int collective_of(const std::string& name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  return found == kNames.end() ? -1 : static_cast<int>(found - kNames.begin());
}

const char* name_of_types(int type) { return kTypes[static_cast<size_t>(type)]; }

}  // namespace ccore_cuda
