// all_reduce_perf: times all_reduce over a range of sizes and checks the results.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "collective_core/collective_core.h"
#include "launch.h"
#include "options.h"
#include "report.h"

namespace {

using namespace ccore_perf;

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Destroy {
  void operator()(cc_comm* comm) const { cc_comm_destroy(comm); }
};
using Comm = std::unique_ptr<cc_comm, Destroy>;

void require(cc_result result, const cc_comm* comm) {
  if (result == CC_SUCCESS) return;
  const std::string shared = comm ? cc_last_error(comm) : "";
  throw RunError(std::string(cc_error_string(result)) + ": " +
                 (shared.empty() ? cc_last_error(nullptr) : shared));
}

std::string processor_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.compare(0, 10, "model name") == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

// One number per rank into one: rank 0's, mean, min or max, as -a says.
double over_ranks(double value, int average, int rank, cc_comm* comm) {
  constexpr cc_redop kOps[] = {CC_SUM, CC_AVG, CC_MIN, CC_MAX};
  double mine = average == 0 && rank != 0 ? 0.0 : value;
  double all = 0;
  require(cc_all_reduce(&mine, &all, 1, CC_FLOAT64, kOps[average], comm, nullptr), comm);
  return all;
}

class Benchmark {
 public:
  Benchmark(const Options& options, const Launch& launch, cc_comm* comm)
      : options_(options), launch_(launch), comm_(comm) {}

  // True when every checked value was right.
  bool run() {
    send_.resize(options_.max_bytes);
    recv_.resize(options_.max_bytes);
    print(header_text(options_, rank_lines(), transport()));
    for (const NamedDtype& dtype : options_.dtypes) {
      for (const NamedRedop& redop : options_.redops) sweep(dtype, redop);
    }
    print(footer_text(wrong_, halves_ == 0 ? 0 : busbw_sum_ / halves_));
    return wrong_ == 0;
  }

 private:
  void print(const std::string& text) const {
    if (launch_.rank != 0) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  std::vector<RankLine> rank_lines() {
    constexpr size_t kBytes = 64;
    const auto size = static_cast<size_t>(launch_.size);
    std::vector<char> model(kBytes);
    std::strncpy(model.data(), processor_model().c_str(), kBytes - 1);
    std::vector<char> models(kBytes * size);
    require(cc_all_gather(model.data(), models.data(), kBytes, CC_UINT8, comm_, nullptr), comm_);
    std::vector<RankLine> lines;
    for (int rank = 0; rank < launch_.size; ++rank) {
      const cc_peer_info info = peer(rank);
      lines.push_back(RankLine{rank, static_cast<long>(info.pid), info.host, info.local_rank, "host memory",
                               models.data() + kBytes * static_cast<size_t>(rank)});
    }
    return lines;
  }

  cc_peer_info peer(int rank) const {
    cc_peer_info info{};
    info.size = sizeof info;
    require(cc_comm_peer_info(comm_, rank, &info), comm_);
    return info;
  }

  // As rank 0 sees it: "0-1 shm, 0-2 tcp". Which node a rank is on decides it, so this tells it all.
  std::string transport() const {
    std::string text;
    for (int rank = 1; rank < launch_.size; ++rank) {
      text += (text.empty() ? "0-" : ", 0-") + std::to_string(rank) + " " + peer(rank).transport;
    }
    return text.empty() ? "none, a single rank" : text;
  }

  void sweep(const NamedDtype& dtype, const NamedRedop& redop) {
    const size_t element = cc_dtype_size(dtype.dtype);
    for (size_t bytes = options_.min_bytes; bytes <= options_.max_bytes;) {
      const size_t count = bytes / element;
      const Half out_of_place = measure(count, dtype.dtype, redop.op, false);
      const Half in_place = measure(count, dtype.dtype, redop.op, true);
      print(row_text(count * element, count, dtype.name, redop.name, out_of_place, in_place));
      bytes = options_.step_factor > 1 ? bytes * options_.step_factor : bytes + options_.step_bytes;
    }
  }

  Half measure(size_t count, cc_dtype dtype, cc_redop op, bool in_place) {
    void* send = send_.data();
    void* recv = in_place ? send : recv_.data();
    const auto once = [&] { require(cc_all_reduce(send, recv, count, dtype, op, comm_, nullptr), comm_); };
    fill_input(send, count, dtype, op, launch_.rank, launch_.size);
    for (int i = 0; i < options_.warmup_iterations; ++i) once();
    require(cc_barrier(comm_, nullptr), comm_);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < options_.iterations; ++i) once();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    const double seconds =
        over_ranks(elapsed.count() / options_.iterations, options_.average, launch_.rank, comm_);
    Half half{};
    half.time_us = seconds * 1e6;
    half.algbw_gbps = static_cast<double>(count * cc_dtype_size(dtype)) / 1e9 / seconds;
    half.busbw_gbps = half.algbw_gbps * (2.0 * (launch_.size - 1)) / launch_.size;
    half.wrong = options_.check ? check(send, recv, count, dtype, op) : -1;
    if (half.wrong > 0) wrong_ += half.wrong;
    busbw_sum_ += half.busbw_gbps;
    ++halves_;
    return half;
  }

  long long check(void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op) {
    // What a wrong result would leave in place must not look right.
    if (recv != send) std::memset(recv, 0x55, count * cc_dtype_size(dtype));
    fill_input(send, count, dtype, op, launch_.rank, launch_.size);
    require(cc_all_reduce(send, recv, count, dtype, op, comm_, nullptr), comm_);
    auto wrong = static_cast<int64_t>(count_wrong(recv, count, dtype, op, launch_.size));
    require(cc_all_reduce(&wrong, &wrong, 1, CC_INT64, CC_SUM, comm_, nullptr), comm_);
    return wrong;
  }

  const Options& options_;
  const Launch& launch_;
  cc_comm* comm_;
  std::vector<unsigned char> send_;
  std::vector<unsigned char> recv_;
  long long wrong_ = 0;
  double busbw_sum_ = 0;
  int halves_ = 0;
};

// The library reads the same variable for its own part of the initialisation, and refuses nonsense in it.
int64_t init_timeout_ms() {
  const double seconds = std::strtod(process_environment("CCORE_INIT_TIMEOUT_S").c_str(), nullptr);
  return seconds > 0 ? static_cast<int64_t>(seconds * 1000) : 120000;
}

int run_rank(const Options& options, const Launch& launch) {
  const cc_unique_id id = meet(launch, process_environment, init_timeout_ms());
  cc_config config{};
  config.size = sizeof config;
  config.timeout_ms = options.timeout_s * 1000;
  cc_comm* raw = nullptr;
  require(cc_comm_init_rank(&raw, launch.size, &id, launch.rank, &config), nullptr);
  const Comm comm(raw);
  const bool right = Benchmark(options, launch, raw).run();
  require(cc_barrier(raw, nullptr), raw);
  return right ? 0 : kExitFailed;
}

}  // namespace

int main(int argc, char** argv) {
  const char* program = "all_reduce_perf";
  Launch launch;
  try {
    launch = detect_launch(process_environment);
    const Options options = parse_options(argc, argv);
    if (options.help) {
      if (launch.rank == 0) std::fputs(usage_text(program).c_str(), stdout);
      return 0;
    }
    return run_rank(options, launch);
  } catch (const UsageError& error) {
    // Every rank sees the same command line; one voice is enough.
    if (launch.rank == 0)
      std::fprintf(stderr, "%s: %s\n%s", program, error.what(), usage_text(program).c_str());
    return kExitUsage;
  } catch (const std::exception& error) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    std::fprintf(stderr, "%s: rank %d of %d on %s failed: %s\n", program, launch.rank, launch.size, host,
                 error.what());
    return kExitFailed;
  }
}
