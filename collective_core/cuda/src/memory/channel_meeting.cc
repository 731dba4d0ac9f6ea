#include "memory/channel_meeting.h"

#include <cstring>

#include "memory/driver_memory.h"

namespace ccore_cuda {
namespace {

// All ranks come from an exchange, so that they connect at the same time.
constexpr int64_t kConnectLimitNs = 10000000000;

struct Invitation {
  ChannelAddress address;
  char error[160];
};
struct Outcome {
  char error[160];
};

template <typename Record>
std::string first_error(const std::vector<Record>& records) {
  for (size_t rank = 0; rank < records.size(); ++rank) {
    if (records[rank].error[0]) return "rank " + std::to_string(rank) + ": " + records[rank].error;
  }
  return "";
}

}  // namespace

DescriptorWay meet_for_descriptors(const Meeting& meeting, int device, bool is_wished) {
  DescriptorWay way;
  Invitation own{};
  std::unique_ptr<ChannelListener> listener;
  try {
    way.driver = make_driver_memory(device);
    if (!is_wished) {
      put(own.error, "CCORE_CUDA_DESCRIPTORS is 0");
    } else if (!way.driver) {
      put(own.error, "the GPU or its driver exports no file descriptors of memory");
    } else {
      listener = std::make_unique<ChannelListener>();
      own.address = listener->address();
    }
  } catch (const ChannelError& error) {
    put(own.error, error.what());
  }
  const auto invitations = meeting.exchange(own);
  way.refusal = first_error(invitations);
  if (!way.refusal.empty()) return way;
  Outcome outcome{};
  try {
    std::vector<ChannelAddress> addresses;
    for (const Invitation& one : invitations) addresses.push_back(one.address);
    way.channels = listener->connect_all(meeting.rank(), addresses, kConnectLimitNs);
  } catch (const ChannelError& error) {
    put(outcome.error, error.what());
  }
  way.refusal = first_error(meeting.exchange(outcome));
  if (!way.refusal.empty()) way.channels.clear();
  return way;
}

}  // namespace ccore_cuda
