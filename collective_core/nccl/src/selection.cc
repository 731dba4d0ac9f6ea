#include "selection.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "nccl_abi.h"

namespace ccore_nccl {
namespace {

struct Range {
  Function function;
  Place place;
  size_t most;   // bytes
  bool proven;   // by programs on a GPU, with correct results; the others need CCORE_NCCL=all
};

constexpr size_t kEvery = SIZE_MAX;

// NCCL carries out what is not listed. Sends and receives are not proven: they have run in nccl-tests only, which
// groups both on every rank.
constexpr std::array kRanges = {
    Range{Function::all_reduce, Place::shared_gpu_streams, kEvery, true},
    Range{Function::all_gather, Place::shared_gpu_streams, kEvery, true},
    Range{Function::reduce_scatter, Place::shared_gpu_streams, kEvery, true},
    Range{Function::broadcast, Place::shared_gpu_streams, kEvery, true},
    Range{Function::send, Place::shared_gpu_streams, kEvery, false},
    Range{Function::recv, Place::shared_gpu_streams, kEvery, false},
    Range{Function::all_reduce, Place::shared_gpu_kernels, kEvery, true},
    Range{Function::all_gather, Place::shared_gpu_kernels, kEvery, true},
    Range{Function::reduce_scatter, Place::shared_gpu_kernels, kEvery, true},
    Range{Function::broadcast, Place::shared_gpu_kernels, kEvery, true},
    Range{Function::send, Place::shared_gpu_kernels, kEvery, false},
    Range{Function::recv, Place::shared_gpu_kernels, kEvery, false},
    // Small messages only: their time is that of launches and flags.
    Range{Function::all_reduce, Place::peers, 256 << 10, true},
};

}  // namespace

size_t size_of(int nccl_type) {
  switch (nccl_type) {
    case kInt8:
    case kUint8:
    case kFloat8e4m3:
    case kFloat8e5m2:
      return 1;
    case kFloat16:
    case kBfloat16:
      return 2;
    case kInt32:
    case kUint32:
    case kFloat32:
      return 4;
    case kInt64:
    case kUint64:
    case kFloat64:
      return 8;
    default:
      return 0;
  }
}

std::optional<cc_dtype> type_of(int nccl_type) {
  switch (nccl_type) {
    case kInt8:
      return CC_INT8;
    case kUint8:
      return CC_UINT8;
    case kInt32:
      return CC_INT32;
    case kUint32:
      return CC_UINT32;
    case kInt64:
      return CC_INT64;
    case kUint64:
      return CC_UINT64;
    case kFloat16:
      return CC_FLOAT16;
    case kFloat32:
      return CC_FLOAT32;
    case kFloat64:
      return CC_FLOAT64;
    case kBfloat16:
      return CC_BFLOAT16;
    case kFloat8e4m3:
      return CC_FLOAT8_E4M3;
    case kFloat8e5m2:
      return CC_FLOAT8_E5M2;
    default:
      return std::nullopt;
  }
}

std::optional<cc_redop> operator_of(int nccl_operator) {
  switch (nccl_operator) {
    case kSum:
      return CC_SUM;
    case kProd:
      return CC_PROD;
    case kMax:
      return CC_MAX;
    case kMin:
      return CC_MIN;
    case kAvg:
      return CC_AVG;
    default:
      return std::nullopt;
  }
}

int nccl_type(cc_dtype dtype) {
  for (int type = kInt8; type <= kFloat8e5m2; type++) {
    if (type_of(type) == dtype) return type;
  }
  return kUint8;
}

int nccl_operator(cc_redop op) {
  for (int known = kSum; known <= kAvg; known++) {
    if (operator_of(known) == op) return known;
  }
  return kSum;
}

bool takes_all() {
  static const bool all = [] {
    const char* text = std::getenv("CCORE_NCCL");
    return text != nullptr && std::strcmp(text, "all") == 0;
  }();
  return all;
}

size_t most_bytes(Function function, Place place) {
  for (const Range& range : kRanges) {
    if (range.function == function && range.place == place) return range.proven || takes_all() ? range.most : 0;
  }
  return 0;
}

}  // namespace ccore_nccl
