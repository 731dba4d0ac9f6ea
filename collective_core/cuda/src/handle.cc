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

void run(cc_cuda* handle, const cc_cuda_call* calls, size_t count, cudaStream_t stream) {
  Group* const group = handle->group.get();
  const Tuner* const tuner = handle->tuner.get();
  for (size_t i = 0; i < count; ++i) {
    cc_cuda_call call = calls[i];
    call.stream = stream;
    call.checks = 0;
    if (call.collective == CC_CUDA_BROADCAST && !call.send) call.send = call.recv;
    if (call.count == 0) continue;
    if (!tuner) {
      group->carry_out(call, Way::kAutomatic);
    } else if (!tuner->has_rival()) {
      handle->tuner->run(call);
    } else {
      const auto chosen = tuner->choice_for(call.collective, call.count, call.dtype);
      group->carry_out(call, chosen && *chosen != Way::kRival ? *chosen : Way::kAutomatic);
    }
  }
}

}  // namespace ccore_cuda
