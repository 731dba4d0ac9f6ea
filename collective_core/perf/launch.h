// Who started this process: rank and size from the launcher's environment, and how the ranks meet.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "collective_core/collective_core.h"

namespace ccore_perf {

class LaunchError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Launch {
  std::string launcher;  // "Open MPI", "MPICH", "Slurm", "torchrun", "none"
  int rank = 0;
  int size = 1;
  int local_size = 0;  // ranks on this host; 0: the launcher does not say
  std::string job;     // names this job among all jobs of the user; may be empty
};

using Environment = std::function<std::string(const char*)>;  // empty text: unset

std::string process_environment(const char* name);
Launch detect_launch(const Environment& environment);
// Makes the same id on all ranks; blocks until rank 0 is there, at most timeout_ms.
cc_unique_id meet(const Launch& launch, const Environment& environment, int64_t timeout_ms);

}  // namespace ccore_perf
