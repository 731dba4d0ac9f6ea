// The part of NCCL's binary interface that this library speaks. The values have been the same since NCCL 2.14; they are
// declared here, so that the library builds without NCCL and serves every version of it.
#pragma once

#include <cstddef>
#include <cstdint>

struct ncclComm;

namespace ccore_nccl {

using Comm = ncclComm*;
using Stream = void*;  // a cudaStream_t

enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum DataType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
};

// Numbers from 5 on are operators that the program made (ncclRedOpCreatePreMulSum).
enum RedOp : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };

struct UniqueId {
  char bytes[128];
};

// How every version of ncclConfig_t begins.
struct Config {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
};

// What a field of a configuration holds that was not set.
constexpr int kUndefinedInt = INT32_MIN;

}  // namespace ccore_nccl
