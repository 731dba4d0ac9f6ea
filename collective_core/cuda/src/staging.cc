#include "staging.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "error.h"

namespace ccore_cuda {
namespace {

struct Allocation {
  uint64_t process;
  uint64_t address;
  cudaIpcMemHandle_t handle;
  char error[160];
};

struct Outcome {
  char error[160];
};

// Process ids repeat in containers.
uint64_t own_process() {
  static const uint64_t token = [] {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) throw Error(CC_ERROR_SYSTEM, "getrandom failed");
    return random;
  }();
  return token;
}

void put(char (&text)[160], const std::string& error) { std::snprintf(text, sizeof text, "%s", error.c_str()); }

// Throws on all ranks the error of the first rank that has one.
template <typename Record>
void require_all(const std::vector<Record>& records) {
  for (size_t rank = 0; rank < records.size(); ++rank) {
    if (records[rank].error[0]) {
      throw Error(CC_ERROR_SYSTEM, "rank " + std::to_string(rank) + ": " + records[rank].error);
    }
  }
}

}  // namespace

Staging::Staging(const Meeting& meeting) : meeting_(meeting), is_mapped_(static_cast<size_t>(meeting.size())) {
  void* own = nullptr;
  cudaError_t code = cudaMalloc(&own, sizeof(Words));
  if (code == cudaSuccess) code = cudaMemset(own, 0, sizeof(Words));
  if (code == cudaSuccess) code = cudaDeviceSynchronize();
  words_ = map_all(code == cudaSuccess ? static_cast<char*>(own) : nullptr, cudaGetErrorString(code));
}

Staging::~Staging() {
  for (auto* mapped : {&places_, &words_}) {
    close_peers(mapped);
    free_own(mapped);
  }
}

void Staging::reserve(size_t input_bytes) {
  if (input_bytes <= input_bytes_) return;
  close_peers(&places_);
  meeting_.exchange(0);  // no rank frees what another still maps
  free_own(&places_);
  input_bytes_ = 0;
  // The place for the result holds one block: the largest share of any rank is half.
  void* own = nullptr;
  const cudaError_t code = cudaMalloc(&own, input_bytes + input_bytes / 2 + 256);
  places_ = map_all(code == cudaSuccess ? static_cast<char*>(own) : nullptr, cudaGetErrorString(code));
  input_bytes_ = input_bytes;
}

std::vector<char*> Staging::map_all(char* own, const char* error) {
  const auto self = static_cast<size_t>(meeting_.rank());
  Allocation allocation{};
  allocation.process = own_process();
  allocation.address = reinterpret_cast<uint64_t>(own);
  if (!own) put(allocation.error, std::string("allocating staging memory on the GPU: ") + error);
  if (own) {
    const cudaError_t code = cudaIpcGetMemHandle(&allocation.handle, own);
    if (code != cudaSuccess) put(allocation.error, std::string("exporting memory: ") + cudaGetErrorString(code));
  }
  const auto all = meeting_.exchange(allocation);
  std::vector<char*> mapped(all.size(), nullptr);
  mapped[self] = own;
  Outcome outcome{};
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (rank == self || all[rank].error[0]) continue;
    if (all[rank].process == allocation.process) {
      mapped[rank] = reinterpret_cast<char*>(all[rank].address);
      continue;
    }
    void* peer = nullptr;
    const cudaError_t code = cudaIpcOpenMemHandle(&peer, all[rank].handle, cudaIpcMemLazyEnablePeerAccess);
    if (code != cudaSuccess) {
      put(outcome.error, "mapping the memory of rank " + std::to_string(rank) + ": " + cudaGetErrorString(code));
      continue;
    }
    mapped[rank] = static_cast<char*>(peer);
    is_mapped_[rank] = true;
  }
  const auto outcomes = meeting_.exchange(outcome);
  try {
    require_all(all);
    require_all(outcomes);
  } catch (const Error&) {
    close_peers(&mapped);
    free_own(&mapped);
    throw;
  }
  return mapped;
}

void Staging::close_peers(std::vector<char*>* mapped) {
  for (size_t rank = 0; rank < mapped->size(); ++rank) {
    if ((*mapped)[rank] && is_mapped_[rank]) cudaIpcCloseMemHandle((*mapped)[rank]);
  }
}

void Staging::free_own(std::vector<char*>* mapped) {
  if (!mapped->empty()) cudaFree((*mapped)[static_cast<size_t>(meeting_.rank())]);
  mapped->clear();
}

}  // namespace ccore_cuda
