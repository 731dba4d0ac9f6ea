// The processor's caches: the size of a line, and copies that go past them.
#pragma once

#include <cstddef>
#include <cstring>

namespace ccore {

// What the caches hold and lose as one.
constexpr size_t kCacheLine = 64;

// Begins to fetch the line for a store to come, so that the store need not wait until the other cores have given it up.
inline void fetch_for_store(const void* line) {
#if defined(__x86_64__)
  // Not the compiler's builtin: without flags for newer CPUs that fetches the line to be read only.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// From this size on, results outgrow a core's caches before the caller can look at their beginning.
constexpr size_t kPastCachesBytes = size_t{4} << 20;

// As memcpy, into memory that nobody reads again soon; what is written is visible to whoever is told so afterwards. An
// ordinary store first fetches the line that it overwrites, which of large data is a third of all that moves between the
// caches and the memory.
void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes);
// The ordinary way, to choose between the two.
inline void copy_into_caches(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace ccore
