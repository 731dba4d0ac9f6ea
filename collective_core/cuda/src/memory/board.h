// Host memory that all ranks of a handle map: the memory that each exports to its peers, and who failed.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "meeting.h"
#include "protocol/layout.h"

namespace ccore_cuda {

enum class ExportKind : uint32_t { kIpc, kSegments };

struct Export {
  cudaIpcMemHandle_t handle;  // of kIpc; the descriptors of segments were sent before
  uint64_t base;
  uint64_t bytes;
  ExportKind kind;
};

// How peers reach memory of the application.
enum class Reach { kIpc, kDescriptors, kStaged };
constexpr int kReaches = 3;

struct BoardOfRank {
  // Counts the changes of a place: odd while it has an export, even when it is free again.
  std::atomic<uint32_t> states[kMostBuffers];
  Export exports[kMostBuffers];
  // What this rank has last seen of the places of each rank and acted upon, and where it has mapped their memory; 0: it
  // could not.
  std::atomic<uint32_t> seen[kMostRanks][kMostBuffers];
  uint64_t addresses[kMostRanks][kMostBuffers];
  std::atomic<uint32_t> offered[kMostRanks];  // messages with descriptors that this rank has sent to that rank
  std::atomic<uint32_t> reached[kReaches];    // by Reach: 1 if some of its memory is
  char notice[256];                           // why it stages memory of cuMemCreate
  std::atomic<uint32_t> left;                  // 1: this rank has gone, and its memory goes
  std::atomic<uint32_t> unmapped[kMostRanks];  // 1: this rank maps nothing of that rank any more
  char failure[256];                           // the text of its failure
};

struct Board {
  std::atomic<uint32_t> news;    // counts changes; a futex
  std::atomic<uint32_t> failed;  // 1 + the first rank whose handle failed
  std::atomic<uint32_t> noticed;  // 1 + the first rank with a notice
  BoardOfRank ranks[kMostRanks];
};

// A mapping of memory of `bytes` that rank 0 makes and all ranks open. The memory ends with the last process.
class SharedMapping {
 public:
  // Collective. Fails on all ranks if it fails on one. `what` is for error texts.
  SharedMapping(const Meeting& meeting, size_t bytes, const char* what);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  void* get() const { return memory_; }
  size_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  size_t bytes_;
};

void wake_all(Board* board);
// Returns when the news are no longer `seen`, or after `timeout_ns`.
void wait_for_news(Board* board, uint32_t seen, int64_t timeout_ns);

}  // namespace ccore_cuda
