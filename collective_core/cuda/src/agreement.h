// What the ranks agree on when a handle is made: who shares a GPU or a process with whom, and the path.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective_core/collective_core_cuda.h"
#include "meeting.h"
#include "nvlink_class.h"

namespace ccore_cuda {

struct Wishes {
  cc_cuda_path path;
  int64_t staging_bytes;
  int64_t packet_bytes;  // the largest message that goes in packets; 0: by the path and the number of ranks
  int32_t blocks;        // at most
  int32_t uses_descriptors;  // for memory of cuMemCreate, if all ranks can
  uint32_t first_epoch;
  int32_t autotune;  // 1: calls compete; rank 0's holds for all
};

struct Agreement {
  cc_cuda_path path;
  std::string description;
  std::vector<uint64_t> processes;
  int ranks_on_device;  // of the rank's own device, itself included
  int gpus;             // different ones, a slice counted as a GPU
  NvlinkClass links;    // between them
  int most_threads;     // the most ranks of one process, the same on all ranks
  bool has_threads_elsewhere;  // ranks of this process have other devices
  bool takes_turns;     // some ranks are processes that share a GPU without MPS
  bool waits_in_streams;  // operations outside of CUDA graphs take StreamPath
  bool autotune;        // calls compete
};

// Collective. Throws on all ranks if one cannot take part or wishes something else.
Agreement agree(const Meeting& meeting, const Wishes& wishes);

}  // namespace ccore_cuda
