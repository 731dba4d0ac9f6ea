// The table that the library for the host looks up: device memory behind its functions.
#include "device/part.h"

#include "entry/entry.h"
#include "guard.h"

namespace {

using ccore::DeviceCall;
using ccore::DeviceWay;
using ccore_cuda::guarded;
using ccore_cuda::entry::Entry;

cc_result create(cc_comm* comm, void** handle) {
  return guarded([&] { *handle = new Entry(comm); });
}

cc_result run(void* handle, const DeviceCall* call, DeviceWay* way) {
  return guarded([&] { *way = static_cast<Entry*>(handle)->run(*call); });
}

cc_result way_of(void* handle, const DeviceCall* call, DeviceWay* way) {
  return guarded([&] { *way = static_cast<Entry*>(handle)->way_of(*call); });
}

cc_result poll(void* handle) {
  return guarded([&] { static_cast<Entry*>(handle)->require_sound(); });
}

void abort(void* handle) { static_cast<Entry*>(handle)->abort(); }

void destroy(void* handle) { delete static_cast<Entry*>(handle); }

}  // namespace

extern "C" CC_API const ccore::DevicePart* cc_cuda_device_part() {
  static const ccore::DevicePart part{CC_VERSION_NUMBER, create, run, way_of, poll, abort, destroy, cc_cuda_last_error};
  return &part;
}
