#include "world.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>
#include <thread>
#include <vector>

namespace cuda_perf {
namespace {

constexpr double kBarrierLimitS = 60;

}  // namespace

double now_s() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void require(cc_result result, const char* what) {
  if (result == CC_SUCCESS) return;
  const std::string cuda = cc_cuda_last_error();
  throw Failed(std::string(what) + ": " + cc_error_string(result) + ": " +
               (cuda.empty() ? cc_last_error(nullptr) : cuda));
}

void Rank::barrier() const {
  const int generation = shared_->generation.load();
  const double begin = now_s();
  if (shared_->arrived.fetch_add(1) + 1 == size) {
    shared_->arrived.store(0);
    shared_->generation.fetch_add(1);
    return;
  }
  while (shared_->generation.load() == generation) {
    if (shared_->dead.load()) throw Failed("another rank has failed");
    if (now_s() - begin > kBarrierLimitS) throw Failed("a rank did not come to the barrier");
    sched_yield();
  }
}

double Rank::largest(double number) const {
  shared_->numbers[rank] = number;
  barrier();
  const double result = *std::max_element(shared_->numbers, shared_->numbers + size);
  barrier();
  return result;
}

double Rank::total(double number) const {
  shared_->numbers[rank] = number;
  barrier();
  double result = 0;
  for (int i = 0; i < size; ++i) result += shared_->numbers[i];
  barrier();
  return result;
}

cc_comm* Rank::make_comm(int slot, int64_t timeout_ms) const {
  if (rank == 0) require(cc_get_unique_id(&shared_->ids[slot]), "cc_get_unique_id");
  barrier();
  cc_config config{};
  config.size = sizeof config;
  config.timeout_ms = timeout_ms;
  config.init_timeout_ms = 20000;
  cc_comm* comm = nullptr;
  require(cc_comm_init_rank(&comm, size, &shared_->ids[slot], rank, &config), "cc_comm_init_rank");
  return comm;
}

cc_cuda* Rank::make_handle(cc_comm* comm, const cc_cuda_options& options) const {
  cc_cuda* handle = nullptr;
  require(cc_cuda_create(comm, &options, &handle), "cc_cuda_create");
  return handle;
}

int run_ranks(int size, bool threads, int killed, const std::function<void(Rank&)>& body) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Failed("mmap of the shared memory failed");
  auto* shared = new (memory) Shared();
  const auto run = [&](int number) {
    try {
      Rank rank(shared, number, size);
      shared->pids[number] = getpid();
      body(rank);
      return 0;
    } catch (const std::exception& error) {
      shared->dead.store(1);
      std::fprintf(stderr, "rank %d of %d: %s\n", number, size, error.what());
      return 1;
    }
  };
  int failed = 0;
  std::fflush(stdout);
  if (threads) {
    std::vector<std::thread> all;
    std::vector<int> results(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      all.emplace_back([&, rank] { results[static_cast<size_t>(rank)] = run(rank); });
    }
    for (auto& thread : all) thread.join();
    failed = static_cast<int>(std::count(results.begin(), results.end(), 1));
  } else {
    for (int rank = 0; rank < size; ++rank) {
      const pid_t pid = fork();
      if (pid < 0) throw Failed("fork failed");
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int result = run(rank);
        std::fflush(stdout);
        _exit(result);
      }
      shared->pids[rank] = pid;
    }
    for (int left = size; left > 0; --left) {
      int status = 0;
      const pid_t pid = wait(&status);
      const bool expected = killed >= 0 && pid == shared->pids[killed];
      if (expected || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) continue;
      if (WIFSIGNALED(status)) std::fprintf(stderr, "process %d was ended by signal %d\n", pid, WTERMSIG(status));
      shared->dead.store(1);
      ++failed;
    }
  }
  munmap(memory, sizeof(Shared));
  return failed;
}

}  // namespace cuda_perf
