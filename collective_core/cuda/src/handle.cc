#include "handle.h"

#include <string>

#include "capture_mode.h"
#include "device.h"
#include "driver.h"
#include "error.h"

namespace ccore_cuda {

void require_own_stream(cc_cuda* handle, void* stream) {
  if (handle->last_stream.load(std::memory_order_relaxed) == stream) return;
  // Reading a stream's device may end its capture, so the check leaves out a stream that is being captured. The ranks
  // exchange nothing for an operation that is only captured, so a stream of another device fails on this rank alone.
  if (is_captured(static_cast<cudaStream_t>(stream))) return;
  const RelaxedCapture relaxed;  // another thread may be capturing
  const int device = device_of(static_cast<cudaStream_t>(stream)), own = handle->context.device();
  if (device >= 0 && device != own) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, "the stream is of device " + std::to_string(device) +
                                               ", and the handle of device " + std::to_string(own) +
                                               "; pass a stream of the device that was current in cc_cuda_create");
  }
  handle->last_stream.store(stream, std::memory_order_relaxed);
}

void run(cc_cuda* handle, const cc_cuda_call& call) {
  on_stream(handle, call.stream, [&](Group* group, cudaStream_t) {
    const Tuner* const tuner = handle->tuner.get();
    if (!tuner) return group->carry_out(call, Way::kAutomatic);
    if (!tuner->has_rival()) return handle->tuner->run(call);
    const auto chosen = tuner->choice_for(call.collective, call.count, call.dtype);
    group->carry_out(call, chosen && *chosen != Way::kRival ? *chosen : Way::kAutomatic);
  });
}

}  // namespace ccore_cuda
