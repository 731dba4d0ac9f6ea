// The channels of a rank for file descriptors of memory, made when a handle is made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "meeting.h"
#include "memory/descriptor_channel.h"
#include "memory/virtual_memory.h"

namespace ccore_cuda {

struct DescriptorWay {
  std::unique_ptr<VirtualMemory> driver;
  std::vector<DescriptorChannel> channels;  // to each rank
  std::string refusal;                      // why the ranks have none; the same on all of them
};

// Collective. If one rank cannot have a channel, none has one. is_wished: by this rank.
DescriptorWay meet_for_descriptors(const Meeting& meeting, int device, bool is_wished);

}  // namespace ccore_cuda
