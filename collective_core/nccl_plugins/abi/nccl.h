// The parts of NCCL's plugin interface that all its versions share: result codes, logging, enumerations.
//
// NCCL publishes the interface as headers of its own; these are declarations of the same binary layout, so that the
// plugins build without NCCL and CUDA. tests/core/programs/nccl_abi.cc compares both where NCCL's headers are present.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccore::nccl {

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

enum LogLevel : int { kLogWarn = 2, kLogInfo = 3 };
enum LogSubsystem : unsigned long { kLogInit = 0x1, kLogNet = 0x10, kLogTuning = 0x40 };

using Logger = void (*)(LogLevel level, unsigned long subsystems, const char* file, int line, const char* pattern, ...);
using ProfilerCallback = Result (*)(void** event, int type, void* parent, int64_t plugin, void* data);

constexpr int kPointerHost = 0x1;
constexpr size_t kHandleBytes = 128;
constexpr int kNetDeviceHost = 0;
constexpr int kNetDeviceNoVersion = 0;
constexpr int kNetIdUndefined = -1;
constexpr size_t kMostTransferBytes = size_t{1} << 40;
constexpr size_t kMostCollNetBytes = size_t{1} << 29;

constexpr int kAlgorithms = 7;
constexpr int kProtocols = 3;
constexpr float kIgnored = -1.0F;  // a pair of algorithm and protocol that NCCL cannot use
constexpr int kUndefined = -1;

}  // namespace ccore::nccl
