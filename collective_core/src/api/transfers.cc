// The C ABI of messages from one rank to another, alone and in groups.
#include <cstddef>
#include <cstdint>

#include "api/support.h"
#include "collective_core/collective_core.h"
#include "common/dtype.h"
#include "device/memory_kind.h"

namespace {

using ccore::guarded;
using ccore::require;

// peer: kAnyPeer for a receive that has a source.
void transfer(bool sends, const void* buffer, size_t count, cc_dtype dtype, int peer, cc_comm* comm,
              const cc_op_options* options, int* source = nullptr) {
  require(comm != nullptr, "comm is null");
  const size_t element = ccore::dtype_size(dtype);
  require(element != 0, "unknown dtype");
  require(count <= SIZE_MAX / element, "count is too large");
  require(count == 0 || buffer, "a buffer is null");
  require(source || (peer >= 0 && peer < comm->communicator.size()), "peer is not a rank");
  ccore::Transfer one{};
  one.sends = sends;
  one.peer = peer;
  one.data = static_cast<std::byte*>(const_cast<void*>(buffer));
  one.bytes = count * element;
  one.header.count = count;
  one.header.dtype = dtype;
  const cc_op_options given = ccore::options_of(options);
  require(ccore::memory_of(buffer, nullptr, given) == CC_MEMORY_HOST,
          "the buffer of a message is device memory; copy it to host memory, or use cc_cuda_exchange");
  one.header.tag = given.tag;
  one.limit_ms = given.timeout_ms;
  one.source = source;
  comm->communicator.transfer(one);
}

}  // namespace

extern "C" {

cc_result cc_send(const void* buffer, size_t count, cc_dtype dtype, int peer, cc_comm* comm,
                  const cc_op_options* options) {
  return guarded([&] { transfer(true, buffer, count, dtype, peer, comm, options); });
}

cc_result cc_recv(void* buffer, size_t count, cc_dtype dtype, int peer, cc_comm* comm, const cc_op_options* options) {
  return guarded([&] { transfer(false, buffer, count, dtype, peer, comm, options); });
}

cc_result cc_recv_any(void* buffer, size_t count, cc_dtype dtype, int* source, cc_comm* comm,
                      const cc_op_options* options) {
  return guarded([&] {
    require(source != nullptr, "source is null");
    transfer(false, buffer, count, dtype, ccore::kAnyPeer, comm, options, source);
  });
}

cc_result cc_group_start(cc_comm* comm) {
  return guarded([&] {
    require(comm != nullptr, "comm is null");
    comm->communicator.open_group();
  });
}

cc_result cc_group_end(cc_comm* comm) {
  return guarded([&] {
    require(comm != nullptr, "comm is null");
    comm->communicator.close_group();
  });
}

cc_result cc_group_progress(cc_comm* comm, int64_t wait_ms, unsigned char* finished, size_t transfers) {
  return guarded([&] {
    require(comm != nullptr, "comm is null");
    require(wait_ms >= 0, "wait_ms is negative");
    require(finished || transfers == 0, "finished is null");
    comm->communicator.advance_group(wait_ms, finished, transfers);
  });
}

}  // extern "C"
