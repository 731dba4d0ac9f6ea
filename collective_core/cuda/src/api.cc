// The C ABI of collectives: checks arguments.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "collective_core/collective_core_cuda.h"
#include "device.h"
#include "device_scope.h"
#include "driver.h"
#include "environment.h"
#include "guard.h"
#include "handle.h"

namespace {

using ccore_cuda::guarded;
using ccore_cuda::on_device;
using ccore_cuda::on_stream;
using ccore_cuda::require;

constexpr int64_t kLeastStagingBytes = 65536;

void require_buffers(const void* send, const void* recv, size_t count, cc_dtype dtype) {
  require(count == 0 || (send && recv), "send or recv is null");
  require(ccore_cuda::reduce_kernels(dtype) != nullptr, "unknown data type");
}

void require_op(cc_redop op) { require(op >= CC_SUM && op <= CC_AVG, "unknown reduction operator"); }

void require_root(const cc_cuda* handle, int root) {
  require(root >= 0 && root < handle->group->size(), "root is not a rank");
}

void require_call(const cc_cuda* handle, const cc_cuda_call& call) {
  require(call.collective >= CC_CUDA_ALL_REDUCE && call.collective <= CC_CUDA_BROADCAST, "unknown collective");
  const bool is_broadcast = call.collective == CC_CUDA_BROADCAST;
  if (is_broadcast) require_root(handle, call.root);
  require_buffers(is_broadcast && !call.send ? call.recv : call.send, call.recv, call.count, call.dtype);
  if (call.collective == CC_CUDA_ALL_REDUCE || call.collective == CC_CUDA_REDUCE_SCATTER) require_op(call.op);
}

cc_result run_one(cc_cuda* handle, const cc_cuda_call& call) {
  return guarded([&] {
    require(handle != nullptr, "handle is null");
    require_call(handle, call);
    if (call.count == 0) return;
    on_stream(handle, call.stream, [&](ccore_cuda::Group*, cudaStream_t on) { ccore_cuda::run(handle, &call, 1, on); });
  });
}

void require_transfers(const cc_cuda* handle, const cc_cuda_transfer* transfers, size_t count) {
  require(handle && (count == 0 || transfers), "handle or transfers is null");
  for (size_t i = 0; i < count; ++i) {
    const cc_cuda_transfer& one = transfers[i];
    require(one.peer >= 0 && one.peer < handle->group->size(), "the peer of a transfer is not a rank");
    require(one.bytes == 0 || (one.send == nullptr) != (one.recv == nullptr),
            "a transfer needs either send or recv, not both or none");
  }
}

void exchange(cc_cuda* handle, const cc_cuda_transfer* transfers, size_t count, void* stream, uint64_t* ticket) {
  ccore_cuda::launch(handle, stream, ticket, [&](ccore_cuda::Group* group, cudaStream_t on) {
    if (count) group->exchange(transfers, count, on);
  });
}

}  // namespace

extern "C" {

cc_result cc_cuda_device_identity(unsigned char identity[16]) {
  return guarded([&] {
    require(identity != nullptr, "identity is null");
    int device = 0;
    ccore_cuda::check(cudaGetDevice(&device), "asking for the current device");
    cudaDeviceProp properties{};
    ccore_cuda::check(cudaGetDeviceProperties(&properties, device), "asking for the properties of the device");
    std::memcpy(identity, ccore_cuda::uuid_of(device, properties).data(), 16);
  });
}

cc_result cc_cuda_create(cc_comm* comm, const cc_cuda_options* options, cc_cuda** handle) {
  return guarded([&] {
    require(comm && handle, "comm or handle is null");
    cc_cuda_options given{};
    if (options) {
      require(options->size >= sizeof(size_t) && options->size <= 4096, "cc_cuda_options.size is not set");
      std::memcpy(&given, options, std::min(options->size, sizeof given));
    }
    require(given.staging_bytes == 0 || given.staging_bytes >= kLeastStagingBytes,
            "cc_cuda_options.staging_bytes is less than 65536");
    require(given.path >= CC_CUDA_PATH_AUTO && given.path <= CC_CUDA_PATH_HOST,
            "cc_cuda_options.path is not a cc_cuda_path");
    require(given.timeout_ms >= 0, "cc_cuda_options.timeout_ms is negative");
    int size = 0;
    require(cc_comm_size(comm, &size) == CC_SUCCESS && size <= ccore_cuda::kMostRanks, "comm has more than 16 ranks");
    const ccore_cuda::Environment environment = ccore_cuda::read_environment();
    ccore_cuda::Wishes wishes{};
    wishes.path = given.path ? static_cast<cc_cuda_path>(given.path) : environment.path;
    wishes.staging_bytes = (given.staging_bytes ? given.staging_bytes : environment.staging_bytes) / 4096 * 4096;
    wishes.packet_bytes = environment.packet_bytes;
    wishes.blocks = environment.blocks;
    wishes.uses_descriptors = environment.uses_descriptors;
    wishes.first_epoch = given.first_epoch;
    wishes.autotune = environment.autotune ? 1 : 0;
    auto group = std::make_unique<ccore_cuda::Group>(
        comm, wishes, given.timeout_ms ? given.timeout_ms : ccore_cuda::timeout_of(comm));
    std::unique_ptr<ccore_cuda::Tuner> tuner;
    if (group->size() > 1 && group->autotune()) tuner = std::make_unique<ccore_cuda::Tuner>(group.get(), nullptr);
    *handle = new cc_cuda{ccore_cuda::DeviceContext::current(), std::move(group), std::move(tuner), {nullptr}};
  });
}

cc_result cc_cuda_get_path(cc_cuda* handle, int* path) {
  return guarded([&] {
    require(handle && path, "handle or path is null");
    *path = handle->group->path();
  });
}

cc_result cc_cuda_describe(cc_cuda* handle, char* text, size_t size) {
  return guarded([&] {
    require(handle && text && size, "handle or text is null, or size is 0");
    const std::string tuned = handle->tuner ? handle->tuner->summary() : "";
    std::snprintf(text, size, "%s%s%s", handle->group->description().c_str(),
                  tuned.empty() ? "" : "; tuned: ", tuned.c_str());
  });
}

cc_result cc_cuda_notice(cc_cuda* handle, char* text, size_t size) {
  return guarded([&] {
    require(handle && text && size, "handle or text is null, or size is 0");
    std::snprintf(text, size, "%s", handle->group->notice().c_str());
  });
}

cc_result cc_cuda_all_reduce(cc_cuda* handle, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                             void* stream) {
  return run_one(handle, {CC_CUDA_ALL_REDUCE, send, recv, count, dtype, op, 0, stream, 0});
}

cc_result cc_cuda_reduce_scatter(cc_cuda* handle, const void* send, void* recv, size_t recv_count, cc_dtype dtype,
                                 cc_redop op, void* stream) {
  return run_one(handle, {CC_CUDA_REDUCE_SCATTER, send, recv, recv_count, dtype, op, 0, stream, 0});
}

cc_result cc_cuda_all_gather(cc_cuda* handle, const void* send, void* recv, size_t send_count, cc_dtype dtype,
                             void* stream) {
  return run_one(handle, {CC_CUDA_ALL_GATHER, send, recv, send_count, dtype, CC_SUM, 0, stream, 0});
}

cc_result cc_cuda_broadcast(cc_cuda* handle, const void* send, void* recv, size_t count, cc_dtype dtype, int root,
                            void* stream) {
  return run_one(handle, {CC_CUDA_BROADCAST, send, recv, count, dtype, CC_SUM, root, stream, 0});
}

cc_result cc_cuda_exchange(cc_cuda* handle, const cc_cuda_transfer* transfers, size_t count, void* stream) {
  return guarded([&] {
    require_transfers(handle, transfers, count);
    exchange(handle, transfers, count, stream, nullptr);
  });
}

cc_result cc_cuda_launch(cc_cuda* handle, const cc_cuda_call* calls, size_t count, void* stream, uint64_t* ticket) {
  return guarded([&] {
    require(handle && (count == 0 || calls), "handle or calls is null");
    for (size_t i = 0; i < count; ++i) require_call(handle, calls[i]);
    ccore_cuda::launch(handle, stream, ticket,
                       [&](ccore_cuda::Group*, cudaStream_t on) { ccore_cuda::run(handle, calls, count, on); });
  });
}

cc_result cc_cuda_launch_exchange(cc_cuda* handle, const cc_cuda_transfer* transfers, size_t count, void* stream,
                                  uint64_t* ticket) {
  return guarded([&] {
    require_transfers(handle, transfers, count);
    exchange(handle, transfers, count, stream, ticket);
  });
}

cc_result cc_cuda_get_stream(cc_cuda* handle, void** stream) {
  return guarded([&] {
    require(handle && stream, "handle or stream is null");
    *stream = handle->group->order().own();
  });
}

cc_result cc_cuda_follow(cc_cuda* handle, void* stream) {
  return guarded([&] {
    require(handle != nullptr, "handle is null");
    on_stream(handle, stream, [](ccore_cuda::Group* group, cudaStream_t leader) { group->order().follow(leader); });
  });
}

cc_result cc_cuda_mark(cc_cuda* handle, void* stream, uint64_t* ticket) {
  return guarded([&] {
    require(handle && ticket, "handle or ticket is null");
    on_device(handle,
              [&](ccore_cuda::Group* group) { *ticket = group->order().mark(static_cast<cudaStream_t>(stream)); });
  });
}

cc_result cc_cuda_ticket_wait(cc_cuda* handle, uint64_t ticket, void* stream) {
  return guarded([&] {
    require(handle != nullptr, "handle is null");
    on_device(handle,
              [&](ccore_cuda::Group* group) { group->order().wait(ticket, static_cast<cudaStream_t>(stream)); });
  });
}

cc_result cc_cuda_ticket_query(cc_cuda* handle, uint64_t ticket, int* ended) {
  return guarded([&] {
    require(handle && ended, "handle or ended is null");
    on_device(handle, [&](ccore_cuda::Group* group) { *ended = group->order().has_ended(ticket) ? 1 : 0; });
  });
}

cc_result cc_cuda_poll(cc_cuda* handle, const char** text) {
  if (!handle) return guarded([] { require(false, "handle is null"); });
  return handle->group->poll(text);
}

cc_result cc_cuda_get_failed_word(cc_cuda* handle, const uint64_t** word) {
  return guarded([&] {
    require(handle && word, "handle or word is null");
    *word = handle->group->failed_word();
  });
}

cc_result cc_cuda_wait(cc_cuda* handle, int64_t timeout_ms) {
  return guarded([&] {
    require(handle && timeout_ms > 0, "handle is null, or timeout_ms is not positive");
    on_device(handle, [&](ccore_cuda::Group* group) { group->wait(timeout_ms); });
  });
}

cc_result cc_cuda_abort(cc_cuda* handle) {
  return guarded([&] {
    require(handle != nullptr, "handle is null");
    handle->group->abort();
  });
}

cc_result cc_cuda_destroy(cc_cuda* handle) {
  return guarded([&] {
    if (handle) {
      on_device(handle, [&](ccore_cuda::Group*) {
        handle->group.reset();  // first: it waits for what runs, which may use memory of the tuner
        handle->tuner.reset();
      });
    }
    delete handle;
  });
}

const char* cc_cuda_last_error(void) { return ccore_cuda::last_error().c_str(); }

}  // extern "C"
