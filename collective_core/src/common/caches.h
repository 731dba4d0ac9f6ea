// The processor's caches: the size of a line, and copies that go past them.
#pragma once

#include <cstddef>
#include <cstring>

namespace ccore {

// What the caches hold and lose as one.
constexpr size_t kCacheLine = 64;

// Writes one byte of each line of what this core has read with what it holds, so that this core has the lines for itself. If
// their owner overwrites them next, it takes them from the one core that has them; of lines that two cores share, an EPYC
// whose cores have no cache in common overwrites one after the other, in 33 ns each. No other thread may use these
// bytes meanwhile.
inline void take_over(std::byte* at, size_t bytes) {
  constexpr size_t kLeastTaken = 1024;  // less is over before it pays
  if (bytes < kLeastTaken) return;
  for (size_t done = 0; done < bytes; done += kCacheLine) {
    volatile std::byte* one = at + done;
    *one = *one;
  }
}

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

// As memcpy, into memory that is not read again soon; what is written is visible to each that is notified afterwards. An
// ordinary store first fetches the line that it overwrites, which of large data is a third of all that moves between the
// caches and the memory.
void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes);
// As memcpy, the ordinary way. From some KiB on the C library's memcpy is one instruction (rep movsb), which on some CPUs takes
// far longer where source and destination do not begin at the same place of a line, as memory of malloc does.
void copy_into_caches(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace ccore
