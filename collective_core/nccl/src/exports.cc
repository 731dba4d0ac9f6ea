// The names of NCCL that this library takes over. All others reach the real NCCL without it.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "attach.h"
#include "communicator.h"
#include "counters.h"
#include "failure.h"
#include "group.h"
#include "nccl_abi.h"
#include "real_nccl.h"
#include "selection.h"

namespace ccore_nccl {
namespace {

// The communicator, if collective_core may take this call on it. `bytes`: of the larger of the two buffers of a rank. Where
// calls compete, take() decides about those of any size.
Communicator* taker(Communicator* found, Function function, size_t bytes) {
  if (found == nullptr || bytes == 0) return nullptr;
  const size_t most = most_bytes(function, found->place);
  return bytes <= most || (found->competes && most > 0) ? found : nullptr;
}

Communicator* taker(Function function, Comm comm, size_t bytes) {
  return taker(find_communicator(comm), function, bytes);
}

// Of a collective whose larger buffer holds `bytes` of each rank.
Communicator* taker_of_all(Function function, Comm comm, size_t bytes) {
  Communicator* found = find_communicator(comm);
  return taker(found, function, found == nullptr ? 0 : bytes * static_cast<size_t>(found->ranks));
}

// Communicators that come up in the background are left to NCCL.
bool blocks(const Config* config) {
  const char* text = std::getenv("NCCL_COMM_BLOCKING");
  if (config != nullptr && config->blocking != kUndefinedInt) return config->blocking != 0;
  return text == nullptr || std::strcmp(text, "0") != 0;
}

std::atomic<bool> some_do_not_block{false};

Result after_init_with(const Config* config, Result code, Comm* made) {
  const bool blocking = blocks(config);
  if (!blocking) some_do_not_block = true;
  return after_init(code, made, blocking);
}

}  // namespace
}  // namespace ccore_nccl

using namespace ccore_nccl;  // NOLINT: the functions below have their names from NCCL

#pragma GCC visibility push(default)
extern "C" {

Result ncclAllReduce(const void* send, void* recv, size_t count, int type, int op, Comm comm, Stream stream) {
  const size_t bytes = count * size_of(type);
  if (Communicator* by = taker(Function::all_reduce, comm, bytes)) {
    const auto dtype = type_of(type);
    const auto redop = operator_of(op);
    if (dtype && redop) {
      return take({Function::all_reduce, by, send, recv, count, *dtype, *redop, 0, stream, bytes});
    }
  }
  count_passed(Function::all_reduce, bytes);
  return pass(real().all_reduce, send, recv, count, type, op, comm, stream);
}

Result ncclReduceScatter(const void* send, void* recv, size_t count, int type, int op, Comm comm, Stream stream) {
  const size_t bytes = count * size_of(type);
  if (Communicator* by = taker_of_all(Function::reduce_scatter, comm, bytes)) {
    const auto dtype = type_of(type);
    const auto redop = operator_of(op);
    if (dtype && redop) {
      return take({Function::reduce_scatter, by, send, recv, count, *dtype, *redop, 0, stream, bytes});
    }
  }
  count_passed(Function::reduce_scatter, bytes);
  return pass(real().reduce_scatter, send, recv, count, type, op, comm, stream);
}

Result ncclAllGather(const void* send, void* recv, size_t count, int type, Comm comm, Stream stream) {
  const size_t bytes = count * size_of(type);
  if (Communicator* by = taker_of_all(Function::all_gather, comm, bytes)) {
    if (const auto dtype = type_of(type)) {
      return take({Function::all_gather, by, send, recv, count, *dtype, CC_SUM, 0, stream, bytes});
    }
  }
  count_passed(Function::all_gather, bytes);
  return pass(real().all_gather, send, recv, count, type, comm, stream);
}

Result ncclBroadcast(const void* send, void* recv, size_t count, int type, int root, Comm comm, Stream stream) {
  const size_t bytes = count * size_of(type);
  if (Communicator* by = taker(Function::broadcast, comm, bytes)) {
    if (const auto dtype = type_of(type)) {
      return take({Function::broadcast, by, send, recv, count, *dtype, CC_SUM, root, stream, bytes});
    }
  }
  count_passed(Function::broadcast, bytes);
  return pass(real().broadcast, send, recv, count, type, root, comm, stream);
}

Result ncclBcast(void* data, size_t count, int type, int root, Comm comm, Stream stream) {
  return ncclBroadcast(data, data, count, type, root, comm, stream);
}

Result ncclSend(const void* data, size_t count, int type, int peer, Comm comm, Stream stream) {
  const size_t bytes = count * size_of(type);
  if (Communicator* by = taker(Function::send, comm, bytes)) {
    return take({Function::send, by, data, nullptr, bytes, CC_UINT8, CC_SUM, peer, stream, bytes});
  }
  count_passed(Function::send, bytes);
  return pass(real().send, data, count, type, peer, comm, stream);
}

Result ncclRecv(void* data, size_t count, int type, int peer, Comm comm, Stream stream) {
  const size_t bytes = count * size_of(type);
  if (Communicator* by = taker(Function::recv, comm, bytes)) {
    return take({Function::recv, by, nullptr, data, bytes, CC_UINT8, CC_SUM, peer, stream, bytes});
  }
  count_passed(Function::recv, bytes);
  return pass(real().recv, data, count, type, peer, comm, stream);
}

Result ncclGroupStart() { return group_start(); }

Result ncclGroupEnd() { return group_end(); }

Result ncclGroupSimulateEnd(void* info) {
  forget_group();
  return pass(real().group_simulate_end, info);
}

Result ncclCommInitRank(Comm* comm, int ranks, UniqueId id, int rank) {
  return after_init_with(nullptr, pass(real().comm_init_rank, comm, ranks, id, rank), comm);
}

Result ncclCommInitRankConfig(Comm* comm, int ranks, UniqueId id, int rank, Config* config) {
  return after_init_with(config, pass(real().comm_init_rank_config, comm, ranks, id, rank, config), comm);
}

Result ncclCommInitRankScalable(Comm* comm, int ranks, int rank, int count, UniqueId* ids, Config* config) {
  return after_init_with(config, pass(real().comm_init_rank_scalable, comm, ranks, rank, count, ids, config), comm);
}

Result ncclCommSplit(Comm comm, int color, int key, Comm* part, Config* config) {
  const Result result = pass(real().comm_split, comm, color, key, part, config);
  // Without a configuration the part has that of the whole.
  const bool blocking = config == nullptr ? blocks(nullptr) && !some_do_not_block : blocks(config);
  return after_init(result, part, blocking);
}

Result ncclCommDestroy(Comm comm) {
  if (auto own = remove_communicator(comm)) retire(std::move(own));
  return pass(real().comm_destroy, comm);
}

Result ncclCommAbort(Comm comm) {
  if (auto own = remove_communicator(comm)) abort_communicator(std::move(own));
  return pass(real().comm_abort, comm);
}

Result ncclCommGetAsyncError(Comm comm, Result* state) {
  const Result result = pass(real().comm_get_async_error, comm, state);
  if (result != kSuccess || state == nullptr || *state != kSuccess) return result;
  if (Communicator* own = find_communicator(comm)) {
    const char* text = nullptr;
    const cc_result failed = core().poll(own->cuda, &text);
    if (failed == CC_SUCCESS) return result;
    *state = code_of(failed);
    if (!own->failed.exchange(true)) fail(*state, text == nullptr ? "" : text);
  }
  return result;
}

const char* ncclGetLastError(Comm comm) {
  if (const char* text = failure_text()) return text;
  const auto function = real().get_last_error;
  return function == nullptr ? "libnccl.so.2 cannot be loaded" : function(comm);
}

}  // extern "C"
#pragma GCC visibility pop
