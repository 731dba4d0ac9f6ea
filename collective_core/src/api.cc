// The C ABI: checks arguments, turns exceptions into codes, and nothing else.
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "collective_core/collective_core.h"
#include "collectives/all_gather/all_gather_ring.h"
#include "collectives/all_reduce/all_reduce_ring.h"
#include "collectives/barrier/barrier_dissemination.h"
#include "collectives/broadcast/broadcast_chain.h"
#include "collectives/broadcast/broadcast_tree.h"
#include "collectives/reduce_scatter/reduce_scatter_ring.h"
#include "common/dtype.h"
#include "engine/communicator.h"

struct cc_comm {
  ccore::Communicator communicator;
};

namespace {

using ccore::Context;
using ccore::Error;
using ccore::Kind;
using ccore::Operation;

// Below this, a broadcast is a matter of latency: log2(p) rounds of a tree beat p-1 hops of a chain.
constexpr size_t kTreeBytes = 32 * 1024;

thread_local std::string last_error;
thread_local std::string last_comm_error;

cc_result fail(cc_result code, const char* text) {
  last_error = text;
  return code;
}

template <typename Body>
cc_result guarded(Body body) {
  try {
    body();
    return CC_SUCCESS;
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(CC_ERROR_SYSTEM, "out of memory");
  } catch (const std::exception& error) {
    return fail(CC_ERROR_INTERNAL, error.what());
  }
}

void require(bool condition, const char* text) {
  if (!condition) throw Error(CC_ERROR_INVALID_ARGUMENT, text);
}

int64_t timeout_of(const cc_op_options* options) {
  if (!options) return 0;
  require(options->size >= sizeof(cc_op_options), "cc_op_options.size is not set");
  require(options->timeout_ms >= 0, "cc_op_options.timeout_ms is negative");
  return options->timeout_ms;
}

struct Call {
  const void* send;
  void* recv;
  size_t count;
  cc_dtype dtype;
  cc_comm* comm;
  const cc_op_options* options;
};

// `blocks`: how many times count the larger buffer holds.
void check(const Call& call, size_t blocks) {
  require(call.comm != nullptr, "comm is null");
  const size_t element = ccore::dtype_size(call.dtype);
  require(element != 0, "unknown dtype");
  require(call.count <= SIZE_MAX / element / (blocks == 0 ? 1 : blocks), "count is too large");
  require(call.count == 0 || (call.send && call.recv), "a buffer is null");
}

void check_redop(cc_redop op) { require(ccore::redop_known(op), "unknown reduction"); }

size_t size_of(cc_comm* comm) { return comm ? static_cast<size_t>(comm->communicator.size()) : 1; }

void copy_alone(const Call& call, size_t bytes) {
  if (call.send != call.recv && bytes > 0) std::memmove(call.recv, call.send, bytes);
}

template <typename Body>
void run(const Call& call, Kind kind, int redop, int root, Body body) {
  Operation operation;
  operation.kind = kind;
  operation.count = call.count;
  operation.dtype = call.dtype;
  operation.redop = redop;
  operation.root = root;
  call.comm->communicator.run(operation, timeout_of(call.options), [&](const Context& context) {
    if (context.nranks == 1) return copy_alone(call, call.count * ccore::dtype_size(call.dtype));
    body(context);
  });
}

}  // namespace

extern "C" {

int cc_version(void) { return CC_VERSION_NUMBER; }

const char* cc_version_string(void) { return CCORE_VERSION_TEXT; }

const char* cc_error_string(cc_result code) {
  switch (code) {
    case CC_SUCCESS:
      return "success";
    case CC_ERROR_INVALID_ARGUMENT:
      return "invalid argument";
    case CC_ERROR_INVALID_USAGE:
      return "invalid usage";
    case CC_ERROR_SYSTEM:
      return "system error";
    case CC_ERROR_REMOTE:
      return "remote error";
    case CC_ERROR_TIMEOUT:
      return "timeout";
    case CC_ERROR_ABORTED:
      return "aborted";
    case CC_ERROR_DESYNC:
      return "desync";
    case CC_ERROR_INTERNAL:
      return "internal error";
    case CC_IN_PROGRESS:
      return "in progress";
  }
  return "unknown code";
}

const char* cc_last_error(const cc_comm* comm) {
  if (!comm) return last_error.c_str();
  last_comm_error = comm->communicator.failure().text();
  return last_comm_error.c_str();
}

size_t cc_dtype_size(cc_dtype dtype) { return ccore::dtype_size(dtype); }

cc_result cc_get_unique_id(cc_unique_id* id) {
  return guarded([&] {
    require(id != nullptr, "id is null");
    *id = ccore::encode(ccore::make_unique_id());
  });
}

cc_result cc_unique_id_from_address(cc_unique_id* id, const char* address, int port, const char* secret,
                                    int is_root) {
  return guarded([&] {
    require(id && address && secret, "an argument is null");
    *id = ccore::encode(ccore::unique_id_at(address, port, secret, is_root != 0));
  });
}

cc_result cc_comm_init_rank(cc_comm** comm, int nranks, const cc_unique_id* id, int rank,
                            const cc_config* config) {
  if (comm) *comm = nullptr;
  return guarded([&] {
    require(comm && id, "an argument is null");
    require(nranks >= 1, "nranks must be at least 1");
    require(rank >= 0 && rank < nranks, "rank must be from 0 to nranks - 1");
    *comm = new cc_comm{ccore::Communicator(ccore::decode(*id), rank, nranks, config)};
  });
}

cc_result cc_comm_destroy(cc_comm* comm) {
  return guarded([&] { delete comm; });
}

cc_result cc_comm_abort(cc_comm* comm) {
  return guarded([&] {
    require(comm != nullptr, "comm is null");
    comm->communicator.abort("cc_comm_abort was called on rank " + std::to_string(comm->communicator.rank()));
  });
}

cc_result cc_comm_get_async_error(const cc_comm* comm, cc_result* state) {
  return guarded([&] {
    require(comm && state, "an argument is null");
    const cc_result failed = comm->communicator.failure().code();
    *state = failed == CC_SUCCESS && comm->communicator.busy() ? CC_IN_PROGRESS : failed;
  });
}

cc_result cc_comm_rank(const cc_comm* comm, int* rank) {
  return guarded([&] {
    require(comm && rank, "an argument is null");
    *rank = comm->communicator.rank();
  });
}

cc_result cc_comm_size(const cc_comm* comm, int* nranks) {
  return guarded([&] {
    require(comm && nranks, "an argument is null");
    *nranks = comm->communicator.size();
  });
}

cc_result cc_comm_peer_info(const cc_comm* comm, int rank, cc_peer_info* info) {
  return guarded([&] {
    require(comm && info, "an argument is null");
    require(rank >= 0 && rank < comm->communicator.size(), "no such rank");
    require(info->size >= sizeof(size_t), "cc_peer_info.size is not set");
    comm->communicator.fill(rank, info);
  });
}

cc_result cc_all_reduce(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                        cc_comm* comm, const cc_op_options* options) {
  return guarded([&] {
    const Call call{send, recv, count, dtype, comm, options};
    check(call, 1);
    check_redop(op);
    run(call, Kind::all_reduce, op, 0,
        [&](const Context& context) { ccore::all_reduce_ring(context, send, recv, count, dtype, op); });
  });
}

cc_result cc_broadcast(const void* send, void* recv, size_t count, cc_dtype dtype, int root, cc_comm* comm,
                       const cc_op_options* options) {
  return guarded([&] {
    const bool is_root = comm && comm->communicator.rank() == root;
    const Call call{is_root ? send : recv, recv, count, dtype, comm, options};
    check(call, 1);
    require(root >= 0 && root < comm->communicator.size(), "root is not a rank");
    const size_t bytes = count * ccore::dtype_size(dtype);
    run(call, Kind::broadcast, 0, root, [&](const Context& context) {
      const auto broadcast = bytes <= kTreeBytes ? ccore::broadcast_tree : ccore::broadcast_chain;
      broadcast(context, send, recv, bytes, root);
    });
  });
}

cc_result cc_all_gather(const void* send, void* recv, size_t count, cc_dtype dtype, cc_comm* comm,
                        const cc_op_options* options) {
  return guarded([&] {
    const Call call{send, recv, count, dtype, comm, options};
    check(call, size_of(comm));
    run(call, Kind::all_gather, 0, 0,
        [&](const Context& context) { ccore::all_gather_ring(context, send, recv, count, dtype); });
  });
}

cc_result cc_reduce_scatter(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                            cc_comm* comm, const cc_op_options* options) {
  return guarded([&] {
    const Call call{send, recv, count, dtype, comm, options};
    check(call, size_of(comm));
    check_redop(op);
    run(call, Kind::reduce_scatter, op, 0,
        [&](const Context& context) { ccore::reduce_scatter_ring(context, send, recv, count, dtype, op); });
  });
}

cc_result cc_barrier(cc_comm* comm, const cc_op_options* options) {
  return guarded([&] {
    const Call call{nullptr, nullptr, 0, CC_UINT8, comm, options};
    check(call, 1);
    run(call, Kind::barrier, 0, 0, [](const Context& context) { ccore::barrier_dissemination(context); });
  });
}

}  // extern "C"
