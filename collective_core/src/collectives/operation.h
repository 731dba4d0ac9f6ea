// What the ranks must agree on before bytes of an operation are exchanged.
#pragma once

#include <cstdint>
#include <string>

#include "collective_core/collective_core.h"

namespace ccore {

enum class Kind : uint32_t { all_reduce = 1, broadcast = 2, all_gather = 3, reduce_scatter = 4, barrier = 5 };

// Travels at the head of the first message on every link that the operation uses.
struct Operation {
  uint32_t magic = 0x504f4343;  // "CCOP"
  Kind kind = Kind::barrier;
  uint64_t sequence = 0;  // counts the operations of the communicator
  uint64_t count = 0;
  int32_t dtype = 0;
  int32_t redop = 0;
  int32_t root = 0;
  uint32_t reserved[5] = {};
};
static_assert(sizeof(Operation) == 56, "part of the wire format");

// The call in words: "operation 7: all_reduce(count=10, f32, sum)".
std::string describe(const Operation& operation);
bool same(const Operation& a, const Operation& b);

}  // namespace ccore
