// The C ABI: exceptions become results, and their texts what cc_cuda_last_error returns.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "collective_core/collective_core_cuda.h"
#include "error.h"
#include "group.h"

struct cc_cuda {
  std::unique_ptr<ccore_cuda::Group> group;
};

namespace {

constexpr int64_t kStagingBytes = int64_t{256} << 20;
constexpr int64_t kLeastStagingBytes = 4096;

thread_local std::string last_error;

template <typename Body>
cc_result guarded(Body body) {
  try {
    body();
    return CC_SUCCESS;
  } catch (const ccore_cuda::Error& error) {
    last_error = error.what();
    return error.result();
  } catch (const std::bad_alloc&) {
    last_error = "out of host memory";
    return CC_ERROR_SYSTEM;
  } catch (const std::exception& error) {
    last_error = error.what();
    return CC_ERROR_INTERNAL;
  }
}

void require(bool condition, const char* text) {
  if (!condition) throw ccore_cuda::Error(CC_ERROR_INVALID_ARGUMENT, text);
}

}  // namespace

extern "C" {

cc_result cc_cuda_device_identity(unsigned char identity[16]) {
  return guarded([&] {
    require(identity != nullptr, "identity is null");
    ccore_cuda::StreamWords::require_support();
    int device = 0;
    ccore_cuda::check(cudaGetDevice(&device), "asking for the current device");
    cudaDeviceProp properties{};
    ccore_cuda::check(cudaGetDeviceProperties(&properties, device), "asking for the properties of the device");
    static_assert(sizeof properties.uuid.bytes == 16, "a UUID has 16 bytes");
    std::memcpy(identity, properties.uuid.bytes, 16);
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
            "cc_cuda_options.staging_bytes is less than 4096");
    int size = 0;
    require(cc_comm_size(comm, &size) == CC_SUCCESS && size <= ccore_cuda::kMostRanks, "comm has more than 16 ranks");
    const auto staging = static_cast<size_t>(given.staging_bytes ? given.staging_bytes : kStagingBytes);
    auto made = std::make_unique<cc_cuda>();
    made->group = std::make_unique<ccore_cuda::Group>(comm, staging / 4096 * 4096, given.first_epoch);
    *handle = made.release();
  });
}

cc_result cc_cuda_all_reduce(cc_cuda* handle, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                             void* stream, int64_t timeout_ms) {
  return guarded([&] {
    require(handle && (count == 0 || (send && recv)), "handle, send or recv is null");
    handle->group->all_reduce(send, recv, count, dtype, op, static_cast<cudaStream_t>(stream), timeout_ms);
  });
}

cc_result cc_cuda_wait(cc_cuda* handle, int64_t timeout_ms) {
  return guarded([&] {
    require(handle && timeout_ms > 0, "handle is null, or timeout_ms is not positive");
    handle->group->wait(timeout_ms);
  });
}

cc_result cc_cuda_destroy(cc_cuda* handle) {
  return guarded([&] { delete handle; });
}

const char* cc_cuda_last_error(void) { return last_error.c_str(); }

}  // extern "C"
