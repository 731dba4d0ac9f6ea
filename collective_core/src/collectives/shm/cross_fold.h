// Reduces what several ranks have in buffers of their own, of which the kernel copies the others' parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/context.h"
#include "collectives/links/stream.h"
#include "transport/shm/cross_memory.h"

namespace ccore {

class CrossFold {
 public:
  // Of a result, at a time: small enough for the second-level cache beside the parts, and so large that a call costs
  // little against what it copies. In loops of 1 to 16 MiB on a Xeon with 2 MiB of that cache, 256 KiB took 3 to 30 %
  // less time than 128 KiB, and that less than 64 KiB; 512 KiB took 20 % more for 16 MiB.
  static constexpr size_t kChunkBytes = 256 * 1024;

  // inputs: by member, the address of its input in its own memory. send: this rank's.
  CrossFold(const Context& context, std::vector<uint64_t> inputs, const void* send, const Reduction& reduction);

  // Of `count` elements, no more than a chunk, from byte `at` of the inputs on, in the order of ranks; in a section.
  // Made at `out`, or, where that is null, in memory that holds it until the next call. `out` may be this rank's own
  // input if its rank is 0 or 1.
  const std::byte* fold(size_t at, size_t count, std::byte* out);

 private:
  const std::byte* part_of(int member, size_t at, size_t count, std::byte* to) const;

  const Context& context_;
  std::vector<uint64_t> inputs_;
  const std::byte* send_;
  Reduction reduction_;
  std::byte* held_;
  std::byte* incoming_;
};

// Calls chunk(first, n) for `count` elements in parts, and between them sees whether a peer has failed.
template <typename Chunk>
void for_each_chunk(const Context& context, size_t count, size_t element, Chunk chunk) {
  constexpr size_t kCheckBytes = 1024 * 1024;  // a peer that fails is noticed after so many at the latest
  const size_t most = CrossFold::kChunkBytes / element;
  for (size_t done = 0; done < count; done += most) {
    if (done * element % kCheckBytes == 0) {
      context.wait->check();
      context.cross_memory->check_all_live();
    }
    chunk(done, most < count - done ? most : count - done);
  }
}

}  // namespace ccore
