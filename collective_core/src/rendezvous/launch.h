// Who started this process: rank and size from the launcher's environment, and how its ranks get the same id.
#pragma once

#include <string>

#include "common/clock.h"
#include "rendezvous/unique_id.h"

namespace ccore {

struct Launch {
  const char* launcher = "none";  // "Open MPI", "MPICH", "torchrun", "Slurm"
  int rank = 0;
  int size = 1;
  int local_size = 1;  // ranks on this host; 0: the launcher does not say
  std::string job;     // names this job among all jobs of the user; may be empty
};

// Throws CC_ERROR_INVALID_ARGUMENT for variables that make no sense.
Launch launch_of_process();
// Makes the same id on all ranks. Waits for rank 0, and on one host as rank 0 for all ranks.
UniqueId meet(const Launch& launch, const Deadline& deadline);

}  // namespace ccore
