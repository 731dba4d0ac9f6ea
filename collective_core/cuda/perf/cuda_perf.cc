// Tests and measures libcollective_core_cuda.so with several ranks on one GPU, or on several.
//
//   cuda_perf TEST [ranks=N] [threads=1] [devices=0,1] [hidden=1] [elsewhere=1] [sizes=1024,65536] [operations=N]
//             [limit=SECONDS] [handles=N] [timeout=MILLISECONDS] [epoch=N] [bytes=N]
//
// devices: rank r has the r-th, again from the first on; hidden: each process sees no other; elsewhere: calls of the soak
// are made with another device current.
// TEST: graph, queue, single (latency), soak, churn, collectives, entry (collective_core.h), faults, killed.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "bench.h"

namespace {

using cuda_perf::Failed;
using cuda_perf::Options;
using cuda_perf::Rank;

std::vector<size_t> numbers(const std::string& text) {
  std::vector<size_t> all;
  for (size_t at = 0; at < text.size();) {
    size_t used = 0;
    all.push_back(std::stoull(text.substr(at), &used));
    at += used + 1;
  }
  return all;
}

Options parse(int argc, char** argv) {
  Options options;
  if (argc < 2)
    throw Failed("usage: cuda_perf graph|queue|single|soak|churn|collectives|entry|faults|killed [name=value]...");
  options.test = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (name == "ranks") {
      options.ranks = std::stoi(value);
    } else if (name == "threads") {
      options.threads = value == "1";
    } else if (name == "devices") {
      options.devices = numbers(value);
    } else if (name == "hidden") {
      options.hidden = value == "1";
    } else if (name == "elsewhere") {
      options.elsewhere = value == "1";
    } else if (name == "sizes") {
      options.sizes = numbers(value);
    } else if (name == "operations") {
      options.operations = std::stoi(value);
    } else if (name == "limit") {
      options.limit_s = std::stod(value);
    } else if (name == "handles") {
      options.handles = std::stoi(value);
    } else if (name == "timeout") {
      options.timeout_ms = std::stoll(value);
    } else if (name == "epoch") {
      options.first_epoch = static_cast<uint32_t>(std::stoull(value));
    } else if (name == "bytes") {
      options.most_bytes = std::stoull(value);
    } else {
      throw Failed("unknown option '" + argument + "'");
    }
  }
  if (options.devices.empty()) throw Failed("devices= names no device");
  if (options.hidden && options.threads)
    throw Failed("threads of one process see the same devices: leave hidden=1 out");
  if (options.sizes.empty()) {
    for (size_t bytes = 1024; bytes <= size_t{16} << 20; bytes *= 4) options.sizes.push_back(bytes);
  }
  return options;
}

void run(Rank& rank, const Options& options) {
  take_device(rank, options);
  if (options.test == "graph" || options.test == "queue" || options.test == "single") return run_latency(rank, options);
  if (options.test == "churn") return run_churn(rank, options);
  if (options.test == "soak") return run_soak(rank, options);
  if (options.test == "collectives") return run_collectives(rank, options);
  if (options.test == "entry") return run_entry(rank, options);
  if (options.test == "faults") return run_faults(rank, options);
  if (options.test == "killed") return run_killed(rank, options);
  throw Failed("unknown test '" + options.test + "'");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    if (options.threads) {
      // Threads share the queues of one process, in which a stream that waits holds up others. A kernel that is loaded
      // when it is first used waits for those that run.
      setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
      setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    }
    const int killed = options.test == "killed" ? options.ranks - 1 : -1;
    return cuda_perf::run_ranks(options.ranks, options.threads, killed, [&](Rank& rank) { run(rank, options); }) ? 1
                                                                                                                 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
