// The main program of all perf programs: times kCollective over a range of sizes and checks the results.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"
#include "collective.h"
#include "collective_core/collective_core.h"
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

struct Free {
  void operator()(unsigned char* memory) const { cc_mem_free(memory); }
};

void require(cc_result result, const cc_comm* comm) {
  if (result == CC_SUCCESS) return;
  const std::string shared = comm ? cc_last_error(comm) : "";
  throw RunError(std::string(cc_error_string(result)) + ": " + (shared.empty() ? cc_last_error(nullptr) : shared));
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
  Benchmark(const Options& options, const cc_launch& launch, cc_comm* comm)
      : options_(options), launch_(launch), comm_(comm) {}

  // True when every checked value was right.
  bool run() {
    allocate();
    const std::vector<RankLine> ranks = rank_lines();  // collective, as the next line
    print(header_text(kCollective.program, options_, ranks, transports()));
    for (const NamedDtype& dtype : options_.dtypes) {
      for (const NamedRedop& redop : redops()) {
        for (const int root : roots()) sweep(dtype, redop, root);
      }
    }
    release();
    print(footer_text(kCollective.program, wrong_, halves_ == 0 ? 0 : busbw_sum_ / halves_));
    return wrong_ == 0;
  }

 private:
  void allocate() {
    if (!options_.registered) {
      own_send_.resize(options_.max_bytes);
      own_recv_.resize(options_.max_bytes);
      send_ = own_send_.data();
      recv_ = own_recv_.data();
      return;
    }
    for (auto* memory : {&send_, &recv_}) {
      void* allocated = nullptr;
      cc_mem_handle handle = 0;
      require(cc_mem_alloc(&allocated, std::max<size_t>(options_.max_bytes, 1)), nullptr);
      shared_.emplace_back(static_cast<unsigned char*>(allocated));
      *memory = shared_.back().get();
      require(cc_mem_register(comm_, allocated, std::max<size_t>(options_.max_bytes, 1), &handle, nullptr, nullptr),
              comm_);
      handles_.push_back(handle);
    }
  }

  void release() {
    for (const cc_mem_handle handle : handles_) require(cc_mem_deregister(comm_, handle, nullptr), comm_);
    handles_.clear();
  }

  // One row for each, only where it makes a difference.
  std::vector<NamedRedop> redops() const {
    return kCollective.reduces ? options_.redops : std::vector<NamedRedop>(1, options_.redops.front());
  }

  std::vector<int> roots() const {
    if (!kCollective.rooted || options_.root != kEveryRoot) return {kCollective.rooted ? options_.root : 0};
    std::vector<int> all(static_cast<size_t>(launch_.nranks));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  void print(const std::string& text) const {
    if (launch_.rank != 0) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  std::vector<RankLine> rank_lines() {
    const std::vector<std::string> models = gathered(processor_model());
    std::vector<RankLine> lines;
    for (int rank = 0; rank < launch_.nranks; ++rank) {
      const cc_peer_info info = peer(rank);
      lines.push_back(RankLine{rank, static_cast<long>(info.pid), info.host, info.local_rank, "host memory",
                               models[static_cast<size_t>(rank)]});
    }
    return lines;
  }

  cc_peer_info peer(int rank) const {
    cc_peer_info info{};
    info.size = sizeof info;
    require(cc_comm_peer_info(comm_, rank, &info), comm_);
    return info;
  }

  // First as rank 0 sees it: "0-1 shm, 0-2 tcp". Which node a rank is on decides it, so this tells it all. Then the RDMA
  // port of each rank, or why there is none.
  std::vector<std::string> transports() {
    std::string text;
    for (int rank = 1; rank < launch_.nranks; ++rank) {
      text += (text.empty() ? "0-" : ", 0-") + std::to_string(rank) + " " + peer(rank).transport;
    }
    std::vector<std::string> lines = {text.empty() ? "none, a single rank" : text};
    const cc_setting net = setting("CCORE_NET");  // of one kind on all ranks
    const std::string value = net.value, note = net.note, before = "proven over ";
    if (net.source == CC_SETTING_NOT_USED) lines.push_back(value + " (RDMA is not used: " + note + ")");
    if (value != "rdma") return lines;
    const std::vector<std::string> ports = gathered(note.rfind(before, 0) == 0 ? note.substr(before.size()) : "");
    for (size_t rank = 0; rank < ports.size(); ++rank) {
      if (!ports[rank].empty()) lines.push_back("rdma by rank " + std::to_string(rank) + " over " + ports[rank]);
    }
    return lines;
  }

  // A setting of this rank; empty if the library has none of that name.
  cc_setting setting(const std::string& name) const {
    size_t count = 0;
    require(cc_get_settings(comm_, nullptr, sizeof(cc_setting), &count), comm_);
    std::vector<cc_setting> all(count);
    require(cc_get_settings(comm_, all.data(), sizeof(cc_setting), &count), comm_);
    const auto found = std::find_if(all.begin(), all.end(), [&](const cc_setting& one) { return name == one.name; });
    return found == all.end() ? cc_setting{} : *found;
  }

  // A short text of each rank, by rank.
  std::vector<std::string> gathered(const std::string& own) {
    constexpr size_t kBytes = 256;
    std::vector<char> mine(kBytes);
    std::strncpy(mine.data(), own.c_str(), kBytes - 1);
    std::vector<char> all(kBytes * static_cast<size_t>(launch_.nranks));
    require(cc_all_gather(mine.data(), all.data(), kBytes, CC_UINT8, comm_, nullptr), comm_);
    std::vector<std::string> texts;
    for (size_t place = 0; place < all.size(); place += kBytes) texts.emplace_back(all.data() + place);
    return texts;
  }

  void sweep(const NamedDtype& dtype, const NamedRedop& redop, int root) {
    const auto ranks = static_cast<size_t>(launch_.nranks);
    const bool blocks = kCollective.send_blocks || kCollective.recv_blocks;
    const Inputs inputs{dtype.dtype, redop.op, kCollective.reduces, launch_.nranks};
    for (size_t bytes = options_.min_bytes; bytes <= options_.max_bytes;) {
      const size_t elements = bytes / cc_dtype_size(dtype.dtype);
      const size_t count = blocks ? elements / ranks : elements;
      const size_t size = (blocks ? count * ranks : count) * cc_dtype_size(dtype.dtype);
      const Half out_of_place = measure(call_on(count, inputs, root, false), size);
      const Half in_place =
          kCollective.in_place ? measure(call_on(count, inputs, root, true), size) : Half{-1, 0, 0, -1};
      print(row_text(size, count, dtype.name, kCollective.reduces ? redop.name : "none", kCollective.rooted ? root : -1,
                     out_of_place, in_place));
      bytes = options_.step_factor > 1 ? bytes * options_.step_factor : bytes + options_.step_bytes;
    }
  }

  Call call_on(size_t count, const Inputs& inputs, int root, bool in_place) {
    const size_t own = static_cast<size_t>(launch_.rank) * count * cc_dtype_size(inputs.dtype);
    unsigned char* send = send_;
    unsigned char* recv = in_place ? send : recv_;
    if (in_place && kCollective.recv_blocks) send += own;
    if (in_place && kCollective.send_blocks) recv += own;
    return Call{launch_.rank, root, send, recv, count, inputs, comm_};
  }

  Half measure(const Call& call, size_t bytes) {
    const auto once = [&] { require(kCollective.run(call), comm_); };
    prepare(call);
    if (halves_ == 0 && options_.warmup_iterations > 0) settle(call, bytes);
    for (int i = 0; i < options_.warmup_iterations; ++i) once();
    require(cc_barrier(comm_, nullptr), comm_);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < options_.iterations; ++i) once();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    const double seconds = over_ranks(elapsed.count() / options_.iterations, options_.average, launch_.rank, comm_);
    Half half{};
    half.time_us = seconds * 1e6;
    half.algbw_gbps = static_cast<double>(bytes) / 1e9 / seconds;
    half.busbw_gbps = half.algbw_gbps * kCollective.bus_factor(launch_.nranks);
    half.wrong = options_.check ? check(call) : -1;
    if (half.wrong > 0) wrong_ += half.wrong;
    busbw_sum_ += half.busbw_gbps;
    ++halves_;
    return half;
  }

  // Repeats the first call until caches, clock rates and the scheduler have settled; otherwise the first row, which is
  // mostly the smallest message, shows these instead of the message. All ranks see the same time, so all end together.
  void settle(const Call& call, size_t bytes) {
    constexpr double kSeconds = 0.02;
    constexpr int kMostBatches = 200;
    const int batch = bytes <= (1 << 20) ? 20 : 1;
    const auto start = std::chrono::steady_clock::now();
    for (int batches = 0; batches < kMostBatches; ++batches) {
      for (int i = 0; i < batch; ++i) require(kCollective.run(call), comm_);
      double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      require(cc_all_reduce(&elapsed, &elapsed, 1, CC_FLOAT64, CC_MAX, comm_, nullptr), comm_);
      if (elapsed >= kSeconds) return;
    }
  }

  // The input, and around it what a result that was never written would leave, which must not look right.
  void prepare(const Call& call) {
    const auto elements = [&](bool blocks) { return call.count * static_cast<size_t>(blocks ? launch_.nranks : 1); };
    const size_t recv_bytes = elements(kCollective.recv_blocks) * cc_dtype_size(call.inputs.dtype);
    if (recv_bytes > 0) std::memset(call.recv, 0x55, recv_bytes);
    fill(const_cast<void*>(call.send), 0, elements(kCollective.send_blocks), call.inputs, launch_.rank);
  }

  long long check(const Call& call) {
    prepare(call);
    require(kCollective.run(call), comm_);
    auto wrong = static_cast<int64_t>(kCollective.wrong(call));
    require(cc_all_reduce(&wrong, &wrong, 1, CC_INT64, CC_SUM, comm_, nullptr), comm_);
    return wrong;
  }

  const Options& options_;
  const cc_launch& launch_;
  cc_comm* comm_;
  std::vector<unsigned char> own_send_;
  std::vector<unsigned char> own_recv_;
  std::vector<std::unique_ptr<unsigned char, Free>> shared_;
  std::vector<cc_mem_handle> handles_;
  unsigned char* send_ = nullptr;
  unsigned char* recv_ = nullptr;
  long long wrong_ = 0;
  double busbw_sum_ = 0;
  int halves_ = 0;
};

void check_ranks(const Options& options, const cc_launch& launch) {
  const std::string ranks = std::to_string(launch.nranks);
  if (kCollective.rooted && options.root >= launch.nranks) {
    throw UsageError("-r " + std::to_string(options.root) + ": there are only " + ranks + " ranks, from 0 on");
  }
  if (kCollective.only_powers_of_two && (launch.nranks & (launch.nranks - 1)) != 0) {
    throw UsageError(ranks + " ranks: expected a power of two, as every round pairs all ranks");
  }
}

int run_rank(const Options& options, const cc_launch& launch) {
  cc_config config{};
  config.size = sizeof config;
  config.timeout_ms = options.timeout_s * 1000;
  cc_comm* raw = nullptr;
  require(cc_comm_init(&raw, &config), nullptr);
  const Comm comm(raw);
  const bool right = Benchmark(options, launch, raw).run();
  require(cc_barrier(raw, nullptr), raw);
  return right ? 0 : kExitFailed;
}

}  // namespace

int main(int argc, char** argv) {
  const char* program = kCollective.program;
  cc_launch launch{};
  launch.size = sizeof launch;
  launch.nranks = 1;
  try {
    require(cc_get_launch(&launch), nullptr);
    const Options options = parse_options(argc, argv);
    if (options.help) {
      if (launch.rank == 0) std::fputs(usage_text(program).c_str(), stdout);
      return 0;
    }
    check_ranks(options, launch);
    return run_rank(options, launch);
  } catch (const UsageError& error) {
    // Every rank sees the same command line; one voice is enough.
    if (launch.rank == 0) std::fprintf(stderr, "%s: %s\n%s", program, error.what(), usage_text(program).c_str());
    return kExitUsage;
  } catch (const std::exception& error) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    std::fprintf(stderr, "%s: rank %d of %d on %s failed: %s\n", program, launch.rank, launch.nranks, host,
                 error.what());
    return kExitFailed;
  }
}
