// The memory of a rank that its peers map: words to wait for, a place for its input, and one for what it has reduced.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fold.h"
#include "meeting.h"

namespace ccore_cuda {

// Words that a rank waits for; word [p] of each is written by rank p, with the epoch that it has reached.
struct Words {
  uint32_t ready[kMostRanks];    // its input is in its staging
  uint32_t reduced[kMostRanks];  // its block of the result is
  uint32_t done[kMostRanks];     // it no longer reads the staging of others
};

class Staging {
 public:
  explicit Staging(const Meeting& meeting);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Collective: makes the places larger, if they are smaller than that. This rank and its peers must have ended their
  // operations. Fails on all ranks if it fails on one.
  void reserve(size_t input_bytes);
  size_t input_bytes() const { return input_bytes_; }

  // Of any rank, as this rank sees them.
  Words* words(int rank) const { return reinterpret_cast<Words*>(words_[static_cast<size_t>(rank)]); }
  char* input(int rank) const { return places_[static_cast<size_t>(rank)]; }
  char* result(int rank) const { return input(rank) + input_bytes_; }

 private:
  // Exchanges an allocation of this rank; `own` null: it failed with `error`.
  std::vector<char*> map_all(char* own, const char* error);
  void close_peers(std::vector<char*>* mapped);
  void free_own(std::vector<char*>* mapped);

  const Meeting& meeting_;
  std::vector<char*> words_;
  std::vector<char*> places_;
  std::vector<bool> is_mapped_;  // by cudaIpc, so that it must be closed
  size_t input_bytes_ = 0;
};

}  // namespace ccore_cuda
