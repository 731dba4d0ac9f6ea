// One operation of the CPU-reduce pipeline: all chunks through the staging buffers, in order.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/context.h"
#include "common/error.h"
#include "pipeline/copy_engine.h"
#include "pipeline/staging.h"

namespace ccore {

struct ChunkedData {
  const std::byte* send;
  std::byte* recv;
  size_t count;
  size_t chunk_elements;
  cc_dtype dtype;
  cc_redop op;
};

// Chunk c passes through slot c modulo their number. On the way it is fetched (its copy to the host has started),
// reduced (with the other ranks; its copy to the device has started) and returned (that copy has ended). A slot takes
// its next chunk when it has returned the one before, so no more chunks are under way than there are slots.
class ChunkPass {
 public:
  ChunkPass(const Context& context, CopyEngine* engine, std::vector<StagingSlot>* slots, const ChunkedData& data);
  // Throws with copies under way.
  void run();

 private:
  StagingSlot& slot(size_t chunk) const { return (*slots_)[chunk % slots_->size()]; }
  size_t elements(size_t chunk) const;
  size_t offset(size_t chunk) const { return chunk * data_.chunk_elements * element_; }
  bool copy_ended(size_t chunk, const char* where);
  void start_to_host(size_t chunk);
  void start_to_device(size_t chunk);
  // Starts whatever can start.
  void advance();
  void reduce(size_t chunk);
  template <typename Ready>
  void wait_for_copy(size_t chunk, const char* where, Ready ready);
  [[noreturn]] void throw_failed(const Error& error, size_t chunk, const char* where) const;

  const Context& context_;
  CopyEngine* engine_;
  std::vector<StagingSlot>* slots_;
  const ChunkedData& data_;
  size_t element_;
  size_t chunks_;
  size_t fetched_ = 0;
  size_t reduced_ = 0;
  size_t returned_ = 0;
};

}  // namespace ccore
