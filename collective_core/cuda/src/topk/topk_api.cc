// The C ABI of top-k selection: checks arguments.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "collective_core/collective_core_cuda_topk.h"
#include "device_scope.h"
#include "guard.h"
#include "topk/handle.h"

struct cc_cuda_topk {
  ccore_cuda::DeviceContext context;
  std::unique_ptr<ccore_cuda::topk::Handle> handle;
};

namespace {

using ccore_cuda::guarded;
using ccore_cuda::require;
namespace topk = ccore_cuda::topk;

constexpr size_t kMostElements = std::numeric_limits<int32_t>::max();
constexpr int kSamplings = 30;  // as the library for the host

bool is_compressible(int dtype) { return dtype == CC_FLOAT32 || dtype == CC_FLOAT16 || dtype == CC_BFLOAT16; }
size_t bytes_of(int dtype) { return dtype == CC_FLOAT32 ? sizeof(float) : sizeof(uint16_t); }
bool is_aligned(const void* memory, size_t bytes) { return reinterpret_cast<uintptr_t>(memory) % bytes == 0; }

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a), second = reinterpret_cast<uintptr_t>(b);
  return a && b && first < second + b_bytes && second < first + a_bytes;
}

topk::Output output_of(void* payload, size_t kept) {
  auto* const words = static_cast<uint32_t*>(payload);
  return topk::Output{words, words + 2, words + 2 + kept};
}

}  // namespace

extern "C" {

size_t cc_cuda_topk_payload_bytes(size_t kept, cc_topk_values values) {
  return 2 * sizeof(uint32_t) + kept * (sizeof(uint32_t) + (values == CC_TOPK_VALUES_F16 ? 2 : 4));
}

cc_result cc_cuda_topk_create(size_t count, size_t kept, cc_cuda_topk** handle) {
  if (handle) *handle = nullptr;
  return guarded([&] {
    require(handle != nullptr, "handle is null");
    require(count <= kMostElements && kept <= count, "count is above 2^31 - 1, or kept above count");
    auto made = std::make_unique<cc_cuda_topk>(cc_cuda_topk{ccore_cuda::DeviceContext::current(), nullptr});
    made->handle = std::make_unique<topk::Handle>(count, kept);
    *handle = made.release();
  });
}

cc_result cc_cuda_topk_select(cc_cuda_topk* handle, const cc_cuda_topk_request* request, void* stream) {
  return guarded([&] {
    require(handle && request, "handle or request is null");
    require(request->size >= sizeof(size_t) && request->size <= 4096, "cc_cuda_topk_request.size is not set");
    cc_cuda_topk_request given{};
    std::memcpy(&given, request, std::min(request->size, sizeof given));
    require(given.gradient && given.payload, "gradient or payload is null");
    require(given.count >= 1 && given.count <= kMostElements, "count is not from 1 to 2^31 - 1");
    require(given.kept >= 1 && given.kept <= given.count, "kept is not from 1 to count");
    require(is_compressible(given.dtype), "top-k selects from f32, f16 and bf16");
    require(given.method >= CC_TOPK_DEFAULT && given.method <= CC_TOPK_MSTOPK, "method is not one of cc_topk_method");
    require(given.values >= CC_TOPK_VALUES_DEFAULT && given.values <= CC_TOPK_VALUES_F16,
            "values is not one of cc_topk_values");
    require(given.samplings >= 0 && given.samplings <= 1000, "samplings is not between 0 and 1000");
    const size_t gradient_bytes = given.count * bytes_of(given.dtype), residual_bytes = given.count * sizeof(float);
    require(is_aligned(given.gradient, bytes_of(given.dtype)) && is_aligned(given.residual, sizeof(float)) &&
                is_aligned(given.next_residual, sizeof(float)) && is_aligned(given.payload, sizeof(uint32_t)),
            "a buffer is not aligned to its elements");
    require(!overlap(given.next_residual, residual_bytes, given.gradient, gradient_bytes) &&
                !overlap(given.next_residual, residual_bytes, given.residual, residual_bytes),
            "next_residual overlaps an input");
    const int samplings = given.method != CC_TOPK_MSTOPK ? 0 : given.samplings > 0 ? given.samplings : kSamplings;
    const topk::Input input{given.gradient,
                            given.residual,
                            given.next_residual,
                            static_cast<uint32_t>(given.count),
                            static_cast<cc_dtype>(given.dtype),
                            given.values == CC_TOPK_VALUES_F16};
    const ccore_cuda::DeviceScope scope(handle->context);
    handle->handle->select(input, topk::plan_of(given.count, given.kept, samplings),
                           output_of(given.payload, given.kept), static_cast<cudaStream_t>(stream));
  });
}

cc_result cc_cuda_topk_sum(cc_cuda_topk* handle, const void* const* payloads, size_t payload_count, size_t kept,
                           cc_topk_values values, int divisor, void* out, size_t count, cc_dtype dtype, void* stream) {
  return guarded([&] {
    require(handle && payloads && out, "handle, payloads or out is null");
    require(count >= 1 && count <= kMostElements, "count is not from 1 to 2^31 - 1");
    require(kept >= 1 && kept <= count, "kept is not from 1 to count");
    require(is_compressible(dtype), "top-k selects from f32, f16 and bf16");
    require(divisor >= 1, "divisor is not positive");
    require(is_aligned(out, bytes_of(dtype)), "a buffer is not aligned to its elements");
    for (size_t p = 0; p < payload_count; ++p) {
      require(payloads[p] && is_aligned(payloads[p], sizeof(uint32_t)), "a payload is null or not aligned to 4 bytes");
    }
    const ccore_cuda::DeviceScope scope(handle->context);
    handle->handle->sum(
        topk::SparseSum{payloads, payload_count, static_cast<uint32_t>(kept), values == CC_TOPK_VALUES_F16, divisor,
                        out, static_cast<uint32_t>(count), dtype},
        static_cast<cudaStream_t>(stream));
  });
}

cc_result cc_cuda_topk_poll(cc_cuda_topk* handle) {
  return guarded([&] {
    require(handle != nullptr, "handle is null");
    if (!handle->handle->is_sound()) {
      throw ccore_cuda::Error(CC_ERROR_INTERNAL, "an index of a compressed vector is out of range");
    }
  });
}

cc_result cc_cuda_topk_destroy(cc_cuda_topk* handle) {
  return guarded([&] {
    if (!handle) return;
    {
      const ccore_cuda::DeviceScope scope(handle->context);
      handle->handle.reset();
    }
    delete handle;
  });
}

}  // extern "C"
