// The ways in which a call can be carried out.
#pragma once

#include <cstdint>

namespace ccore_cuda {

enum class Way : uint8_t {
  kAutomatic,  // as the path chooses by the size
  kPackets,    // kernels that send packets
  kCpus,       // path stream: through the CPUs
  kSlots,      // path stream: the input goes into slots of the peers
  kBuffers,    // peers use each other's buffers
  kRival,      // not by this library
};
constexpr int kWays = 6;

}  // namespace ccore_cuda
