// The ranks that share a GPU, and their operations.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collective_core/collective_core_cuda.h"
#include "meeting.h"
#include "staging.h"
#include "stream_words.h"

namespace ccore_cuda {

class Group {
 public:
  Group(cc_comm* comm, size_t most_staging_bytes, uint32_t first_epoch);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void all_reduce(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op, cudaStream_t stream,
                  int64_t timeout_ms);
  void wait(int64_t timeout_ms);

 private:
  struct Call;

  void meet(const Call& call, int64_t timeout_ms) const;
  void queue_part(const char* send, char* recv, size_t count, const Call& call, cudaStream_t stream);
  void announce(uint32_t (Words::*words)[kMostRanks]);
  void await(uint32_t (Words::*words)[kMostRanks], uint32_t epoch);
  Sources inputs_from(size_t offset_bytes) const;
  bool read_words(Words* words) const;
  std::string missing_ranks() const;
  void settle();
  void release();

  Meeting meeting_;
  Staging staging_;
  const size_t most_staging_bytes_;
  StreamWords words_;
  uint32_t epoch_;
  uint64_t calls_ = 0;
  cudaEvent_t ended_ = nullptr;
  cudaStream_t rescue_ = nullptr;  // for what must not queue behind a stream that waits
  std::string broken_;             // the text of the first failure
};

}  // namespace ccore_cuda
