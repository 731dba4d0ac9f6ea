#include "launch.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "local_rendezvous.h"

namespace ccore_perf {
namespace {

constexpr int kDefaultPort = 29555;

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_size;  // may be null
  const char* job[3];      // the first that is set; may be null
};

// In this order: a job step of Slurm that runs mpirun has both sets, and the inner one is the truth.
constexpr Launcher kLaunchers[] = {
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"}},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", {"PMI_JOBID", "HYDRA_JOBID", nullptr}},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", {"TORCHELASTIC_RUN_ID", nullptr, nullptr}},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", nullptr, {"SLURM_JOB_ID", nullptr, nullptr}},
};

int integer(const char* name, const std::string& text, long least) {
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0 || value < least || value > 1000000) {
    throw LaunchError(std::string(name) + "=" + text + ": expected a number of at least " + std::to_string(least));
  }
  return static_cast<int>(value);
}

void require(cc_result result) {
  if (result != CC_SUCCESS) throw LaunchError(std::string(cc_error_string(result)) + ": " + cc_last_error(nullptr));
}

cc_unique_id id_at(const Launch& launch, const Environment& environment, const std::string& host, int port) {
  std::string secret = environment("CCORE_JOB_SECRET");
  if (secret.empty()) secret = launch.job;
  if (secret.empty()) {
    throw LaunchError("the launcher gives the job no name: set CCORE_JOB_SECRET to the same text on all ranks");
  }
  cc_unique_id id;
  require(cc_unique_id_from_address(&id, host.c_str(), port, secret.c_str(), launch.rank == 0));
  return id;
}

}  // namespace

std::string process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Launch detect_launch(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    const std::string rank = environment(launcher.rank);
    const std::string size = environment(launcher.size);
    if (rank.empty()) continue;
    if (size.empty()) {
      throw LaunchError(std::string(launcher.rank) + " is set but " + launcher.size +
                        " is not: cannot tell how many ranks there are");
    }
    Launch launch;
    launch.launcher = launcher.name;
    launch.rank = integer(launcher.rank, rank, 0);
    launch.size = integer(launcher.size, size, 1);
    if (launch.rank >= launch.size) {
      throw LaunchError(std::string(launcher.rank) + "=" + rank + " is not below " + launcher.size + "=" + size);
    }
    if (launcher.local_size && !environment(launcher.local_size).empty()) {
      launch.local_size = integer(launcher.local_size, environment(launcher.local_size), 1);
    }
    for (const char* job : launcher.job) {
      if (launch.job.empty() && job) launch.job = environment(job);
    }
    const std::string step = environment("SLURM_STEP_ID");
    if (launch.launcher == "Slurm" && !step.empty()) launch.job += "." + step;
    // torchrun calls every job "none" that was given no name; two on one host differ in this.
    const std::string port = environment("MASTER_PORT");
    if (launch.launcher == "torchrun" && !launch.job.empty() && !port.empty()) launch.job += ":" + port;
    return launch;
  }
  Launch alone;
  alone.launcher = "none";
  alone.local_size = 1;
  return alone;
}

cc_unique_id meet(const Launch& launch, const Environment& environment, int64_t timeout_ms) {
  cc_unique_id id{};
  if (launch.size == 1) {
    require(cc_get_unique_id(&id));
    return id;
  }
  const std::string root = environment("CCORE_ROOT_ADDR");
  const std::string root_port = environment("CCORE_ROOT_PORT");
  if (!root.empty()) {
    const int port = root_port.empty() ? kDefaultPort : integer("CCORE_ROOT_PORT", root_port, 1);
    return id_at(launch, environment, root, port);
  }
  if (launch.local_size == launch.size) {
    // All local ranks are children of one launcher process, which names the job when nothing else does.
    const std::string job = launch.job.empty() ? "parent " + std::to_string(getppid()) : launch.job;
    return share_id_locally(launch.rank, launch.size, job, timeout_ms);
  }
  const std::string master = environment("MASTER_ADDR");
  const std::string master_port = environment("MASTER_PORT");
  if (!master.empty() && !master_port.empty()) {
    // torchrun's own store listens on MASTER_PORT.
    const int own_store = environment("TORCHELASTIC_RUN_ID").empty() ? 0 : 1;
    return id_at(launch, environment, master, integer("MASTER_PORT", master_port, 1) + own_store);
  }
  throw LaunchError(
      "the ranks are on several hosts: set CCORE_ROOT_ADDR to an address of rank 0's host, and "
      "CCORE_ROOT_PORT and CCORE_JOB_SECRET, on all ranks (mpirun -x NAME=VALUE)");
}

}  // namespace ccore_perf
