// Lists of sends and receives as rounds, each of which has at most one transfer in each direction between two ranks.
#pragma once

#include <vector>

#include "collective_core/collective_core_cuda.h"
#include "driver.h"
#include "paths/path.h"

namespace ccore_cuda {

class ExchangePath {
 public:
  ExchangePath(const PathContext* context, uint32_t first_epoch);

  // waits_in_stream: the streams wait, not the kernels.
  void exchange(const cc_cuda_transfer* transfers, size_t count, cudaStream_t stream, bool waits_in_stream);

 private:
  using Round = std::vector<Transfer>;

  std::vector<Round> rounds_of(const cc_cuda_transfer* transfers, size_t count) const;
  void copy_own(const cc_cuda_transfer* transfers, size_t count, cudaStream_t stream) const;
  void place(Round* round) const;
  void run_in_kernels(const Round& round, cudaStream_t stream);
  void run_in_stream(const Round& round, cudaStream_t stream);
  int blocks_of(size_t bytes) const;

  const PathContext& context_;
  const size_t most_bytes_;  // of a transfer
  const int most_blocks_;    // of a transfer
  StreamWords words_;
  std::vector<uint32_t> sent_, received_;  // epochs of the transfers in streams, by peer
};

}  // namespace ccore_cuda
