// Pinned host memory for HostFold: made once, at the first call that needs it, because pinning takes 0.7 ms per MiB.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "meeting.h"
#include "memory/pinned_mapping.h"

namespace ccore_cuda {

constexpr size_t kFoldChunkBytes = size_t{4} << 20;
constexpr int kFoldSlots = 4;

// How many chunks a rank has come to. Written by streams of that rank; a line for each word.
struct alignas(128) FoldWords {
  alignas(128) uint32_t given;   // its input is in its slot
  alignas(128) uint32_t folded;  // it has read the inputs of the others, and its block of the result is in its slot
  alignas(128) uint32_t taken;   // it has read the blocks of the others
};

// Set before a rank that has failed ends the waits of its streams. The others wait for the same words, and so must not take
// what they then find as a result.
struct alignas(128) FoldFailure {
  uint32_t failed;
};

// Memory that all ranks map: per rank its words, and slots for chunks.
class HostPool {
 public:
  // Collective. Fails on all ranks if it fails on one.
  explicit HostPool(const Meeting& meeting);

  // As this rank's GPU sees them, which is also how its host sees them.
  FoldWords* words(int rank) const;
  FoldFailure* failure() const;
  // A chunk of input; the rank's own block of it is not used.
  char* input(int rank, int slot) const;
  // The rank's block of the result.
  char* result(int rank, int slot) const;

 private:
  PinnedMapping memory_;
  char* const data_;
};

}  // namespace ccore_cuda
