// The C ABI of the tuner: checks arguments.
#include <algorithm>
#include <cstring>

#include "collective_core/collective_core_cuda_tuning.h"
#include "guard.h"
#include "handle.h"

namespace {

using ccore_cuda::guarded;
using ccore_cuda::require;
using ccore_cuda::Way;

void require_collective(int collective) {
  require(collective >= CC_CUDA_ALL_REDUCE && collective <= CC_CUDA_BROADCAST, "unknown collective");
}

}  // namespace

extern "C" {

cc_result cc_cuda_add_rival(cc_cuda* handle, const cc_cuda_rival* rival) {
  return guarded([&] {
    require(handle && rival, "handle or rival is null");
    require(rival->size >= sizeof(size_t) && rival->size <= 4096, "cc_cuda_rival.size is not set");
    cc_cuda_rival given{};
    std::memcpy(&given, rival, std::min(rival->size, sizeof given));
    require(given.name && given.version && given.run, "the name, version or run of the rival is null");
    ccore_cuda::on_device(handle, [&](ccore_cuda::Group* group) {
      handle->tuner.reset();
      handle->tuner = std::make_unique<ccore_cuda::Tuner>(group, &given);
    });
  });
}

cc_result cc_cuda_compete(cc_cuda* handle, const cc_cuda_call* call) {
  return guarded([&] {
    require(handle && call && handle->tuner, "handle or call is null, or the handle has no tuner");
    require_collective(call->collective);
    require(ccore_cuda::reduce_kernels(call->dtype) != nullptr, "unknown data type");
    require(call->op >= CC_SUM && call->op <= CC_AVG, "unknown reduction operator");
    require(call->root >= 0 && call->root < handle->group->size(), "root is not a rank");
    require(call->count == 0 || (call->recv && call->send), "send or recv is null");
    if (call->count == 0) return;
    ccore_cuda::on_stream(handle, call->stream, [&](ccore_cuda::Group*, cudaStream_t) { handle->tuner->run(*call); });
  });
}

cc_result cc_cuda_consult(cc_cuda* handle, int collective, size_t count, cc_dtype dtype, int* by) {
  if (!handle || !by || collective < CC_CUDA_ALL_REDUCE || collective > CC_CUDA_BROADCAST) {
    return guarded([] { require(false, "handle or by is null, or the collective is unknown"); });
  }
  *by = 0;
  if (!handle->tuner || count == 0) return CC_SUCCESS;
  if (const auto chosen = handle->tuner->choice_for(collective, count, dtype)) *by = *chosen == Way::kRival ? 2 : 1;
  return CC_SUCCESS;
}

}  // extern "C"
