// What a cc_cuda points to.
#pragma once

#include <atomic>
#include <memory>

#include "device_scope.h"
#include "group.h"
#include "tuning/tuner.h"

struct cc_cuda {
  ccore_cuda::DeviceContext context;
  std::unique_ptr<ccore_cuda::Group> group;
  std::unique_ptr<ccore_cuda::Tuner> tuner;  // null: no calls compete. Uses the group
  std::atomic<void*> last_stream{nullptr};   // of the device, as was checked
};

namespace ccore_cuda {

// Runs a call with the device of its handle current: the thread may have another.
template <typename Body>
void on_device(const cc_cuda* handle, Body body) {
  const DeviceScope scope(handle->context);
  body(handle->group.get());
}

// With the device of the handle current, which default streams have. Throws for a stream of another device.
void require_own_stream(cc_cuda* handle, void* stream);

// The same as on_device() for an operation on a stream.
template <typename Body>
void on_stream(cc_cuda* handle, void* stream, Body body) {
  on_device(handle, [&](Group* group) {
    require_own_stream(handle, stream);
    body(group, static_cast<cudaStream_t>(stream));
  });
}

// Collectives that the program calls on the handle, on a stream. A rival is not asked: its calls and its groups are the
// program's.
void run(cc_cuda* handle, const cc_cuda_call* calls, size_t count, cudaStream_t stream);

// Runs the body with a stream of the caller, or, if there is a ticket, with the handle's own stream after that.
template <typename Body>
void launch(cc_cuda* handle, void* stream, uint64_t* ticket, Body body) {
  on_stream(handle, stream, [&](Group* group, cudaStream_t leader) {
    if (!ticket) return body(group, leader);
    const bool captured = group->order().follow(leader);
    body(group, group->order().own());
    *ticket = group->order().newest(captured);
  });
}

}  // namespace ccore_cuda
