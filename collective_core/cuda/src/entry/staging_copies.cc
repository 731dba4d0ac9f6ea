#include "entry/staging_copies.h"

#include <algorithm>
#include <vector>

#include "capture_mode.h"
#include "nodes/places.h"

namespace ccore_cuda::entry {
namespace {

using ccore::DeviceCall;

// A range of a buffer, in bytes.
struct Range {
  size_t begin;
  size_t bytes;
};
using Ranges = std::vector<Range>;

size_t end_of(const Ranges& ranges) {
  size_t end = 0;
  for (const Range& one : ranges) end = std::max(end, one.begin + one.bytes);
  return end;
}

Ranges ranges_of(const size_t* counts, const size_t* offsets, int size, size_t element) {
  Ranges all;
  for (int rank = 0; rank < size; ++rank) all.push_back({offsets[rank] * element, counts[rank] * element});
  return all;
}

// What the operation reads and writes on this rank. Only this is copied: what lies between blocks is the program's.
struct Extents {
  Ranges read;
  Ranges written;
};

Extents extents_of(const DeviceCall& call, int rank, int size) {
  const size_t element = cc_dtype_size(call.dtype), one = call.count * element;
  const size_t all = one * static_cast<size_t>(size);
  const bool is_root = rank == call.root;
  switch (call.operation) {
    case CC_OPERATION_ALL_REDUCE:
      return {{{0, one}}, {{0, one}}};
    case CC_OPERATION_REDUCE:
      return {{{0, one}}, {{0, is_root ? one : 0}}};
    case CC_OPERATION_BROADCAST:
      return {{{0, is_root ? one : 0}}, {{0, one}}};
    case CC_OPERATION_ALL_GATHER:
      return {{{0, one}}, {{0, all}}};
    case CC_OPERATION_REDUCE_SCATTER:
      return {{{0, all}}, {{0, one}}};
    case CC_OPERATION_GATHER:
      return {{{0, one}}, {{0, is_root ? all : 0}}};
    case CC_OPERATION_SCATTER:
      return {{{0, is_root ? all : 0}}, {{0, one}}};
    case CC_OPERATION_ALL_TO_ALL:
      return {{{0, all}}, {{0, all}}};
    case CC_OPERATION_ALL_TO_ALLV:
      return {ranges_of(call.send_counts, call.send_offsets, size, element),
              ranges_of(call.recv_counts, call.recv_offsets, size, element)};
    case CC_OPERATION_ALL_GATHERV:
      return {{{0, call.recv_counts[rank] * element}}, ranges_of(call.recv_counts, call.recv_offsets, size, element)};
    default:
      throw Error(CC_ERROR_INTERNAL, "an operation that works on no device memory");
  }
}

cc_result run_on_host(const DeviceCall& call, const void* send, void* recv, cc_comm* comm,
                      const cc_op_options* options) {
  switch (call.operation) {
    case CC_OPERATION_ALL_REDUCE:
      return cc_all_reduce(send, recv, call.count, call.dtype, call.op, comm, options);
    case CC_OPERATION_REDUCE:
      return cc_reduce(send, recv, call.count, call.dtype, call.op, call.root, comm, options);
    case CC_OPERATION_BROADCAST:
      return cc_broadcast(send, recv, call.count, call.dtype, call.root, comm, options);
    case CC_OPERATION_ALL_GATHER:
      return cc_all_gather(send, recv, call.count, call.dtype, comm, options);
    case CC_OPERATION_REDUCE_SCATTER:
      return cc_reduce_scatter(send, recv, call.count, call.dtype, call.op, comm, options);
    case CC_OPERATION_GATHER:
      return cc_gather(send, recv, call.count, call.dtype, call.root, comm, options);
    case CC_OPERATION_SCATTER:
      return cc_scatter(send, recv, call.count, call.dtype, call.root, comm, options);
    case CC_OPERATION_ALL_TO_ALL:
      return cc_all_to_all(send, recv, call.count, call.dtype, comm, options);
    case CC_OPERATION_ALL_TO_ALLV:
      return cc_all_to_allv(send, call.send_counts, call.send_offsets, recv, call.recv_counts, call.recv_offsets,
                            call.dtype, comm, options);
    case CC_OPERATION_ALL_GATHERV:
      return cc_all_gatherv(send, recv, call.recv_counts, call.recv_offsets, call.dtype, comm, options);
    default:
      return CC_ERROR_INTERNAL;
  }
}

}  // namespace

StagingCopies::~StagingCopies() {
  if (copies_up_) cudaEventSynchronize(up_.get());
}

void StagingCopies::run(const DeviceCall& call, int rank, int size) {
  const auto stream = static_cast<cudaStream_t>(call.stream);
  if (is_captured(stream)) {
    throw Error(CC_ERROR_INVALID_USAGE,
                "an operation that goes through host memory cannot be captured in a CUDA graph; end the capture first");
  }
  const Extents extents = extents_of(call, rank, size);
  const int64_t limit_ms = call.timeout_ms > 0 ? call.timeout_ms : timeout_ms_;
  if (copies_up_) nodes::await(up_, limit_ms, "the copies of the last operation to the device", [] {});
  char* const send = send_.of(end_of(extents.read));
  char* const recv = recv_.of(end_of(extents.written));
  for (const Range& one : extents.read) {
    if (one.bytes == 0) continue;
    check(cudaMemcpyAsync(send + one.begin, static_cast<const char*>(call.send) + one.begin, one.bytes,
                          cudaMemcpyDefault, stream),
          "copying to the host");
  }
  down_.record(stream);
  nodes::await(down_, limit_ms, "what was queued before a copy to the host", [] {});
  cc_op_options options{};
  options.size = sizeof options;
  options.timeout_ms = call.timeout_ms;
  options.memory = CC_MEMORY_HOST;
  nodes::require_success(run_on_host(call, send, recv, comm_, &options));
  for (const Range& one : extents.written) {
    if (one.bytes == 0) continue;
    check(cudaMemcpyAsync(static_cast<char*>(call.recv) + one.begin, recv + one.begin, one.bytes, cudaMemcpyDefault,
                          stream),
          "copying to the device");
  }
  up_.record(stream);
  copies_up_ = true;
}

}  // namespace ccore_cuda::entry
