// What the ranks must agree on before bytes of an operation are exchanged.
#pragma once

#include <cstdint>
#include <string>

#include "collective_core/collective_core.h"

namespace ccore {

enum class Kind : uint32_t {
  all_reduce = 1,
  broadcast = 2,
  all_gather = 3,
  reduce_scatter = 4,
  barrier = 5,
  transfer = 6,
  reduce = 7,
  gather = 8,
  scatter = 9,
  all_to_all = 10,
  all_to_allv = 11,  // count: of the elements on that link
  all_gatherv = 12,  // count: of all elements; shape: a digest of every rank's count
  topk_all_reduce = 13,  // shape: a digest of how it compresses
  cpu_reduce = 14,  // shape: the elements of a chunk
  split = 20,
  finalize = 21,
  tuning = 22,  // tag: one of TuningStep
  register_memory = 23,
  deregister_memory = 24,  // shape: the number of the registration
  meeting = 25,  // of the ranks, at their first operation on device memory
};

// The tag of a collective whose buffers are device memory.
constexpr int32_t kOnDevice = 1 << 20;

// What the ranks do about the tuner.
enum TuningStep : int32_t {
  kTunerAgrees =
      1,  // in front of an operation: as its call, but for target, its kind, and shape, the number of figures
  kTunerLoads = 2,
  kTunerSearches = 3,
  kTunerIsSet = 4,  // shape: a digest of the choice
};

// Travels at the head of the first message on every link that the operation uses, and of every transfer.
struct Operation {
  uint32_t magic = 0x504f4343;  // "CCOP"
  Kind kind = Kind::barrier;
  // Counts the operations of the communicator; of a transfer, those from its root to its target.
  uint64_t sequence = 0;
  uint64_t count = 0;
  int32_t dtype = 0;
  int32_t redop = 0;
  int32_t root = 0;    // of a transfer: its sender
  int32_t target = 0;  // of a transfer: its receiver
  int32_t tag = 0;     // of a transfer: the caller's mark
  uint32_t algorithm = 0;  // 1 + the one that this rank takes; 0: the tuner has no say
  uint64_t shape = 0;
};
static_assert(sizeof(Operation) == 56, "part of the wire format");

// Whether it is carried out on device memory: then no algorithm of the host has a say in it.
inline bool on_device(const Operation& operation) {
  return operation.tag == kOnDevice && operation.kind != Kind::transfer && operation.kind != Kind::tuning;
}

// The call in words: "operation 7: all_reduce(count=10, f32, sum)".
std::string describe(const Operation& operation);
bool same(const Operation& a, const Operation& b);
// Whether `rank`, which is in the operation, is bound to wait until `absent` is in it too. False where that depends on
// more than the header says.
bool cannot_end_without(const Operation& operation, int rank, int absent);
// Throws CC_ERROR_DESYNC, naming both, if rank and peer (as the communicator numbers them) are in different ones.
void require_same(const Operation& own, int rank, const Operation& other, int peer);

}  // namespace ccore
