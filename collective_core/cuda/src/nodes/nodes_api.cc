// The C ABI of all_reduce on several nodes: checks arguments.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "collective_core/collective_core_cuda_nodes.h"
#include "device_scope.h"
#include "guard.h"
#include "nodes/nodes.h"

struct cc_cuda_residual {
  ccore_cuda::nodes::Residual residual;
};

struct cc_cuda_nodes {
  // Made with the device current; then its context is known.
  explicit cc_cuda_nodes(std::unique_ptr<ccore_cuda::nodes::Nodes> made)
      : context(ccore_cuda::DeviceContext::current()), nodes(std::move(made)) {}

  const ccore_cuda::DeviceContext context;
  std::unique_ptr<ccore_cuda::nodes::Nodes> nodes;
  std::string failure;  // what cc_cuda_nodes_poll has returned
  std::atomic_flag in_use = ATOMIC_FLAG_INIT;
};

namespace {

using ccore_cuda::Error;
using ccore_cuda::guarded;
using ccore_cuda::require;
using ccore_cuda::nodes::Call;

constexpr int64_t kChunkBytes = int64_t{4} << 20;
constexpr int kChunks = 4;

// The only operation of a handle, with the handle's device current.
class Hold {
 public:
  explicit Hold(cc_cuda_nodes* handle) : scope_(handle->context), flag_(handle->in_use) {
    if (flag_.test_and_set(std::memory_order_acquire)) {
      throw Error(CC_ERROR_INVALID_USAGE, "another thread is in an operation of this handle");
    }
  }
  ~Hold() { flag_.clear(std::memory_order_release); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  const ccore_cuda::DeviceScope scope_;
  std::atomic_flag& flag_;
};

Call call_of(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op, void* stream,
             int64_t timeout_ms) {
  require(count == 0 || (send && recv), "a buffer is null");
  require(timeout_ms >= 0, "timeout_ms is negative");
  require(cc_dtype_size(dtype) > 0 && count <= SIZE_MAX / cc_dtype_size(dtype), "unknown dtype, or too large a count");
  return Call{static_cast<const char*>(send),
              static_cast<char*>(recv),
              count,
              dtype,
              op,
              static_cast<cudaStream_t>(stream),
              timeout_ms};
}

}  // namespace

extern "C" {

cc_result cc_cuda_nodes_create(cc_comm* comm, const cc_cuda_nodes_options* options, cc_cuda_nodes** handle) {
  if (handle) *handle = nullptr;
  return guarded([&] {
    require(comm && handle, "comm or handle is null");
    cc_cuda_nodes_options given{};
    if (options) {
      require(options->size >= sizeof(size_t) && options->size <= 4096, "cc_cuda_nodes_options.size is not set");
      std::memcpy(&given, options, std::min(options->size, sizeof given));
    }
    const int64_t chunk_bytes = given.chunk_bytes ? given.chunk_bytes : kChunkBytes;
    const int chunks = given.chunks ? given.chunks : kChunks;
    require(chunk_bytes >= 4096 && chunk_bytes <= int64_t{1} << 34, "chunk_bytes is not from 4 KiB to 16 GiB");
    require(chunks >= 1 && chunks <= 64, "chunks is not from 1 to 64");
    *handle = new cc_cuda_nodes(std::make_unique<ccore_cuda::nodes::Nodes>(
        comm, static_cast<size_t>(chunk_bytes) / 16 * 16, static_cast<size_t>(chunks)));
  });
}

cc_result cc_cuda_nodes_all_reduce(cc_cuda_nodes* handle, const void* send, void* recv, size_t count, cc_dtype dtype,
                                   cc_redop op, void* stream, int64_t timeout_ms) {
  return guarded([&] {
    require(handle != nullptr, "handle is null");
    const Hold hold(handle);
    handle->nodes->all_reduce(call_of(send, recv, count, dtype, op, stream, timeout_ms));
  });
}

cc_result cc_cuda_nodes_get_info(const cc_cuda_nodes* handle, cc_cuda_nodes_info* info) {
  return guarded([&] {
    require(handle && info, "an argument is null");
    require(info->size >= sizeof(size_t), "cc_cuda_nodes_info.size is not set");
    cc_cuda_nodes_info full{};
    full.size = std::min(info->size, sizeof full);
    full.inside = handle->nodes->inside_path();
    full.reductions = handle->nodes->reductions();
    full.selections = handle->nodes->selections();
    std::memcpy(info, &full, full.size);
  });
}

cc_result cc_cuda_nodes_poll(cc_cuda_nodes* handle, const char** text) {
  return guarded([&] {
    require(handle != nullptr, "handle is null");
    const Hold hold(handle);
    try {
      handle->nodes->require_sound();
    } catch (const Error& error) {
      if (handle->failure.empty()) handle->failure = error.what();
      if (text) *text = handle->failure.c_str();
      throw;
    }
  });
}

cc_result cc_cuda_nodes_abort(cc_cuda_nodes* handle) {
  return guarded([&] {
    require(handle != nullptr, "handle is null");
    handle->nodes->abort();
  });
}

cc_result cc_cuda_residual_create(cc_cuda_residual** residual) {
  if (residual) *residual = nullptr;
  return guarded([&] {
    require(residual != nullptr, "residual is null");
    *residual = new cc_cuda_residual{};
  });
}

cc_result cc_cuda_residual_reset(cc_cuda_residual* residual) {
  return guarded([&] {
    require(residual != nullptr, "residual is null");
    residual->residual.reset();
  });
}

cc_result cc_cuda_residual_get_info(const cc_cuda_residual* residual, cc_residual_info* info) {
  return guarded([&] {
    require(residual && info, "an argument is null");
    require(info->size >= sizeof(size_t), "cc_residual_info.size is not set");
    const auto& from = residual->residual;
    cc_residual_info full{};
    full.size = std::min(info->size, sizeof full);
    full.count = from.shape().count;
    full.dtype = from.shape().dtype;
    full.shard_begin = from.shape().begin;
    full.shard_count = from.shape().part;
    full.steps = from.steps();
    full.values = from.values();
    std::memcpy(info, &full, full.size);
  });
}

cc_result cc_cuda_residual_read(const cc_cuda_residual* residual, float* values) {
  return guarded([&] {
    require(residual && values, "an argument is null");
    residual->residual.read(values);
  });
}

cc_result cc_cuda_residual_destroy(cc_cuda_residual* residual) {
  return guarded([&] { delete residual; });
}

cc_result cc_cuda_nodes_topk_all_reduce(cc_cuda_nodes* handle, const void* send, void* recv, size_t count,
                                        cc_dtype dtype, cc_redop op, const cc_topk_options* topk,
                                        cc_cuda_residual* residual, void* stream, int64_t timeout_ms) {
  return guarded([&] {
    require(handle != nullptr, "handle is null");
    const Hold hold(handle);
    handle->nodes->topk_all_reduce(call_of(send, recv, count, dtype, op, stream, timeout_ms), topk,
                                   residual ? &residual->residual : nullptr);
  });
}

cc_result cc_cuda_nodes_destroy(cc_cuda_nodes* handle) {
  return guarded([&] {
    if (!handle) return;
    {
      const ccore_cuda::DeviceScope scope(handle->context);
      handle->nodes.reset();
    }
    delete handle;
  });
}

}  // extern "C"
