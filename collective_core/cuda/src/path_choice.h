// Which path the ranks of a handle take: a pure function of a table that all ranks have, so that all come to the same
// path. Nothing here calls CUDA.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "collective_core/collective_core_cuda.h"

namespace ccore_cuda {

// What a rank reports of itself. Plain data, which ranks send to each other. A device is never known by its ordinal:
// CUDA_VISIBLE_DEVICES gives each process ordinals of its own.
struct RankFacts {
  uint64_t process;                    // a random token: process ids repeat in containers
  std::array<unsigned char, 16> uuid;  // of the GPU, or of the MIG slice
  uint64_t bus;                        // the PCI address of the GPU, which the slices of a GPU have in common
  int32_t node;
  int32_t has_mps;
  int32_t has_stream_operations;
  int32_t orders_remote_writes;  // a stream that has waited for a word sees what another GPU wrote before the word
};

struct RankTable {
  // No rank reaches another before they have tried.
  explicit RankTable(const std::vector<RankFacts>& all)
      : ranks(all), reaches(all.size(), std::vector<bool>(all.size())), signals(reaches) {}

  std::vector<RankFacts> ranks;
  // reaches[a][b]: a has read and written memory of b, and b has seen it.
  std::vector<std::vector<bool>> reaches;
  // signals[a][b]: a stream of a has written a word in memory of b, and b has seen it.
  std::vector<std::vector<bool>> signals;
};

enum class Link : uint8_t { kThread, kSameDevice, kSlice, kPeer };
constexpr int kLinks = 4;
Link link_of(const RankFacts& a, const RankFacts& b);

struct PathChoice {
  cc_cuda_path path;
  std::string reason;  // of the path, or why the ranks cannot have it
  cc_result result;    // of cc_cuda_create
  // Empty for the path through the host, if it is requested: it needs nothing of the pairs.
  std::string pairs;    // "1 pair of processes on one GPU, 2 pairs between GPUs"
  int gpus;             // different ones, a slice counted as a GPU
  int most_threads;     // the most ranks that one process has
  bool takes_turns;     // some ranks are processes that share a GPU without MPS
  // On the path `kernel`: outside of CUDA graphs, the streams wait instead of the kernels, because processes share a GPU.
  bool waits_in_streams;
};

// The same on all ranks. wished: AUTO, or the path that all ranks request.
PathChoice choose_path(const RankTable& table, cc_cuda_path wished);

// How many ranks of the table have the device of this one, itself included.
int ranks_on_device(const std::vector<RankFacts>& ranks, size_t rank);

const char* name_of(cc_cuda_path path);

}  // namespace ccore_cuda
