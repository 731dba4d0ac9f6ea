#include "rendezvous/launch.h"

#include <unistd.h>

#include <cstring>

#include "common/env.h"
#include "common/error.h"
#include "rendezvous/local.h"

namespace ccore {
namespace {

constexpr int64_t kDefaultPort = 29555;
constexpr int64_t kLargestNumber = 1000000;
constexpr int64_t kMostPort = 65535;

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

bool is(const Launcher& launcher, const char* name) { return std::strcmp(launcher.name, name) == 0; }

int number(const char* name, int64_t least, int64_t most = kLargestNumber) {
  return static_cast<int>(env_integer(name, least, least, most));
}

UniqueId id_at(const Launch& launch, const std::string& host, int port) {
  std::string secret = env_text("CCORE_JOB_SECRET");
  if (secret.empty()) secret = launch.job;
  if (secret.empty()) {
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                "the launcher gives the job no name: set CCORE_JOB_SECRET to the same text on all ranks");
  }
  return unique_id_at(host, port, secret, launch.rank == 0);
}

std::string job_of(const Launcher& launcher) {
  std::string job;
  for (const char* name : launcher.job) {
    if (job.empty() && name) job = env_text(name);
  }
  const std::string step = env_text("SLURM_STEP_ID");
  if (is(launcher, "Slurm") && !step.empty()) job += "." + step;
  // torchrun calls every job "none" that was given no name; two on one host differ in this.
  const std::string port = env_text("MASTER_PORT");
  if (is(launcher, "torchrun") && !job.empty() && !port.empty()) job += ":" + port;
  return job;
}

}  // namespace

Launch launch_of_process() {
  for (const Launcher& launcher : kLaunchers) {
    if (env_text(launcher.rank).empty()) continue;
    if (env_text(launcher.size).empty()) {
      throw Error(CC_ERROR_INVALID_ARGUMENT, format("%s is set but %s is not: cannot tell how many ranks there are",
                                                    launcher.rank, launcher.size));
    }
    Launch launch;
    launch.launcher = launcher.name;
    launch.rank = number(launcher.rank, 0);
    launch.size = number(launcher.size, 1);
    if (launch.rank >= launch.size) {
      throw Error(CC_ERROR_INVALID_ARGUMENT,
                  format("%s=%d is not below %s=%d", launcher.rank, launch.rank, launcher.size, launch.size));
    }
    const bool says = launcher.local_size && !env_text(launcher.local_size).empty();
    launch.local_size = says ? number(launcher.local_size, 1) : 0;
    launch.job = job_of(launcher);
    return launch;
  }
  return Launch();
}

UniqueId meet(const Launch& launch, const Deadline& deadline) {
  if (launch.size == 1) return make_unique_id();
  const std::string root = env_text("CCORE_ROOT_ADDR");
  if (!root.empty()) {
    return id_at(launch, root, static_cast<int>(env_integer("CCORE_ROOT_PORT", kDefaultPort, 1, kMostPort)));
  }
  if (launch.local_size == launch.size) {
    // All local ranks are children of one launcher process, which names the job when nothing else does.
    const std::string job = launch.job.empty() ? "parent " + std::to_string(getppid()) : launch.job;
    return share_id_locally(launch.rank, launch.size, job, deadline);
  }
  const std::string master = env_text("MASTER_ADDR");
  if (!master.empty() && !env_text("MASTER_PORT").empty()) {
    // torchrun's own store listens on MASTER_PORT.
    const int own_store = env_text("TORCHELASTIC_RUN_ID").empty() ? 0 : 1;
    return id_at(launch, master, number("MASTER_PORT", 1, kMostPort - 1) + own_store);
  }
  throw Error(CC_ERROR_INVALID_ARGUMENT,
              "the ranks are on several hosts: set CCORE_ROOT_ADDR to an address of rank 0's host, and "
              "CCORE_ROOT_PORT and CCORE_JOB_SECRET, on all ranks (mpirun -x NAME=VALUE)");
}

}  // namespace ccore
