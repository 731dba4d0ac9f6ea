// What the environment says about the tuner of CUDA calls, and what the choices of a job are valid for.
#pragma once

#include <string>

#include "tuner/cache.h"
#include "tuning/competition.h"

namespace ccore_cuda {

struct TuningSettings {
  Plan plan;
  bool keeps;    // choices are read from a file and written to it
  bool updates;  // also if there is one already
};

// Throws ccore_cuda::Error for a value that it cannot read.
TuningSettings tuning_settings();
// Whether CCORE_AUTOTUNE is 1. The same errors.
bool autotune_is_on();

// description: of the handle, which names the path, the ranks, the links between GPUs and MPS. rival: "nccl 2.28.9", or empty.
ccore::CacheIdentity identity_of_choices(const std::string& description, const std::string& rival);

}  // namespace ccore_cuda
