#include "common/last_level_cache.h"

#include <unistd.h>

namespace ccore {

size_t last_level_cache_bytes() {
#ifdef _SC_LEVEL3_CACHE_SIZE
  static const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : 0;
#else
  return 0;
#endif
}

}  // namespace ccore
