// The C ABI of the CPU-reduce pipeline: checks arguments.

#include <memory>

#include "api/support.h"
#include "collective_core/collective_core.h"
#include "common/dtype.h"
#include "common/process_id.h"
#include "pipeline/copy_engine.h"
#include "pipeline/cpu_reduce.h"

struct cc_cpu_reduce {
  pid_t process;
  ccore::CpuReduce pipeline;
};

namespace {

using ccore::guarded;
using ccore::require;

std::unique_ptr<ccore::CopyEngine> engine_from(const cc_copy_engine* callbacks) {
  if (callbacks) return std::make_unique<ccore::CallbackEngine>(*callbacks);
  return std::make_unique<ccore::MemoryEngine>();
}

}  // namespace

extern "C" {

cc_result cc_cpu_reduce_create(cc_comm* comm, const cc_cpu_reduce_options* options, const cc_copy_engine* engine,
                               cc_cpu_reduce** handle) {
  if (handle) *handle = nullptr;
  return guarded([&] {
    require(comm && handle, "an argument is null");
    const ccore::CpuReduceSettings settings = ccore::cpu_reduce_settings_from(options);
    *handle = new cc_cpu_reduce{ccore::process_id(), {&comm->communicator, settings, engine_from(engine)}};
  });
}

cc_result cc_cpu_reduce_run(cc_cpu_reduce* handle, const void* device_send, void* device_recv, size_t count,
                            cc_dtype dtype, cc_redop op, const cc_op_options* options) {
  return guarded([&] {
    require(handle != nullptr, "handle is null");
    const size_t element = ccore::dtype_size(dtype);
    require(element != 0, "unknown dtype");
    require(ccore::redop_known(op), "unknown reduction");
    require(count <= SIZE_MAX / element, "count is too large");
    require(count == 0 || (device_send && device_recv), "a buffer is null");
    handle->pipeline.run(device_send, device_recv, count, dtype, op, ccore::timeout_of(options));
  });
}

cc_result cc_cpu_reduce_destroy(cc_cpu_reduce* handle) {
  return guarded([&] {
    // A forked copy has no thread that could end what its engine has under way.
    if (!handle || handle->process != ccore::process_id()) return;
    if (handle->pipeline.running()) {
      throw ccore::Error(CC_ERROR_INVALID_USAGE, "this cpu_reduce is running; abort its communicator first");
    }
    delete handle;
  });
}

}  // extern "C"
