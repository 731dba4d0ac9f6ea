// What the parts of the program share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "world.h"

namespace cuda_perf {

struct Options {
  std::string test = "latency";  // latency, eager, soak, collectives, faults, killed
  int ranks = 2;
  bool threads = false;
  std::vector<size_t> devices = {0};  // of rank r: the r-th, again from the first on
  bool hidden = false;     // each process sees its device alone
  bool elsewhere = false;  // of the soak: another device is current during each call
  std::vector<size_t> sizes;
  int operations = 1000;   // of the soak
  double limit_s = 20;     // of the soak
  int handles = 3;
  int64_t timeout_ms = 10000;
  uint32_t first_epoch = 0;
  size_t most_bytes = size_t{1} << 20;  // of the soak
};

inline void check_cuda(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw Failed(std::string(what) + ": " + cudaGetErrorString(code));
}

// Makes the device of a rank current. With options.hidden it must be the process' first call of CUDA.
void take_device(const Rank& rank, const Options& options);

// While it lives, a device is current that is not the rank's, if there is one. Its end throws if a call of the library has
// changed the current device.
class Elsewhere {
 public:
  Elsewhere(const Rank& rank, const Options& options);
  void end();
  bool is_elsewhere() const { return other_ != own_; }

 private:
  int own_ = 0, other_ = 0;
};

// Memory, stream and handle of a rank.
class Setup {
 public:
  Setup(Rank& rank, const Options& options, size_t bytes);
  ~Setup();
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  unsigned long long wrong();  // elements, of all checks since the last call; synchronizes

  Rank& rank;
  cc_comm* comm = nullptr;
  cc_cuda* handle = nullptr;
  cudaStream_t stream = nullptr;
  char* input = nullptr;
  char* output = nullptr;
  unsigned long long* wrong_count = nullptr;
};

void run_latency(Rank& rank, const Options& options);
void run_soak(Rank& rank, const Options& options);
void run_churn(Rank& rank, const Options& options);
void run_collectives(Rank& rank, const Options& options);
void run_entry(Rank& rank, const Options& options);
void run_faults(Rank& rank, const Options& options);
void run_killed(Rank& rank, const Options& options);

}  // namespace cuda_perf
