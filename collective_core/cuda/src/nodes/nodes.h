// all_reduce of device memory whose ranks are on several nodes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nodes/inside.h"
#include "nodes/owned.h"
#include "nodes/places.h"
#include "nodes/residual.h"
#include "topk/handle.h"

namespace ccore_cuda::nodes {

// An operation's arguments.
struct Call {
  const char* send;
  char* recv;
  size_t count;
  cc_dtype dtype;
  cc_redop op;
  cudaStream_t stream;
  int64_t timeout_ms;
};

class Nodes {
 public:
  Nodes(cc_comm* comm, size_t chunk_bytes, size_t chunks);
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  void all_reduce(const Call& call);
  // residual null: what is not sent is lost.
  void topk_all_reduce(const Call& call, const cc_topk_options* options, Residual* residual);
  // Throws the first error, also of what is queued on the GPU.
  void require_sound();
  void abort() const;

  int inside_path() const { return inside_.path(); }
  uint64_t reductions() const { return reductions_; }
  uint64_t selections() const { return selections_; }

 private:
  // A chunk's way: into a pinned buffer, between the nodes, and back.
  struct Slot {
    Event summed;    // inside the node
    Event down;      // in the buffer
    Event up;        // in device memory again
  };
  struct Chunk {
    size_t begin;
    size_t count;
    Part part;  // of this rank, from `begin` on; empty if it owns none
  };

  void fail(const Error& error);
  template <typename Body>
  void guarded(const Call& call, Body body);
  Chunk chunk_at(const Call& call, size_t number) const;
  size_t chunks_of(const Call& call) const;
  void send_down(const Call& call, size_t number);
  void reduce_dense(const Call& call);
  void travel(const Call& call, char* buffer, size_t count);

  void compressed(const Call& call, const cc_topk_plan& plan, Residual* residual);
  bool exchange(const cc_topk_plan& plan, size_t bytes, int64_t timeout_ms);
  void reduce_part_dense(const Call& call, const cc_topk_plan& plan, const char* part);
  void await(const Event& event, int64_t timeout_ms) const;
  int divisor_of(const Call& call) const { return call.op == CC_AVG ? places_.ranks() : 1; }

  Places places_;
  Inside inside_;
  const size_t chunk_bytes_;
  const int64_t default_timeout_ms_;
  uint64_t reductions_ = 0;
  uint64_t selections_ = 0;
  Stream work_;
  Stream down_;
  Stream up_;
  Event begun_;
  Event ended_;
  std::vector<std::unique_ptr<Slot>> slots_;
  PinnedBuffer pinned_;
  topk::Handle topk_;
  DeviceBuffer payloads_;
  PinnedBuffer host_payloads_;
  std::string broken_;  // the text of the first failure
  cc_result broken_by_ = CC_SUCCESS;
};

}  // namespace ccore_cuda::nodes
