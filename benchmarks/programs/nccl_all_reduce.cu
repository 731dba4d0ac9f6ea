// NCCL's all_reduce between processes that share one GPU: every rank claims to be a host of its own (NCCL_HOSTID), so
// that NCCL's network carries everything. NCCL is opened at run time; nothing else is needed to build this.
//
//   nccl_all_reduce NCCL_LIBRARY [ranks=2] [min=1024] [max=268435456] [mode=sizes|random|grid|table] [plugin=LIBRARY]
//                   [limit=60] [netns=NAME,NAME] [repeats=5]
//
// sizes: "bytes microseconds wrong", the median over repeats of the slowest rank, for powers of four.
// random: random counts and offsets, in and out of place, each checked.
// table: "bytes own table wrong", NCCL's own choice and the tuner plugin's table, interleaved in one communicator.
// grid: every choice of algorithm, protocol and channels, forced through the tuner plugin at `plugin`.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

namespace {

constexpr int kMostRanks = 16;
constexpr double kMeetSeconds = 60;

struct UniqueId {
  char bytes[128];
};
using Comm = void*;
constexpr int kFloat = 7;
constexpr int kSum = 0;

struct Nccl {
  int (*get_version)(int*);
  int (*get_unique_id)(UniqueId*);
  int (*init_rank)(Comm*, int, UniqueId, int);
  int (*all_reduce)(const void*, void*, size_t, int, int, Comm, cudaStream_t);
  int (*destroy)(Comm);
  const char* (*last_error)(Comm);
};

struct Question {  // ccore_nccl_question
  uint64_t questions, bytes;
  int32_t collective, algorithm, protocol;
  uint32_t available;
};

struct Options {
  std::string library, plugin, mode = "sizes", netns;
  int ranks = 2, repeats = 5;
  size_t least = 1024, most = size_t{256} << 20;
  double limit = 60;
};

struct Shared {
  std::atomic<int> arrived, round, dead, have_id;
  UniqueId id;
  double times[kMostRanks];
  unsigned long long wrong[kMostRanks];
};

Options g_options;
Shared* g_shared;
int g_rank;
Nccl g_nccl;

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

[[noreturn]] void fail(const char* what, const char* why) {
  fprintf(stderr, "rank %d: %s: %s\n", g_rank, what, why);
  g_shared->dead = 1;
  _exit(3);
}

#define CUDA(call)                                                          \
  do {                                                                      \
    const cudaError_t error_ = (call);                                      \
    if (error_ != cudaSuccess) fail(#call, cudaGetErrorString(error_));     \
  } while (0)
#define NCCL(call)                                            \
  do {                                                        \
    if ((call) != 0) fail(#call, g_nccl.last_error(nullptr)); \
  } while (0)

void meet() {
  const int round = g_shared->round;
  if (g_shared->arrived.fetch_add(1) + 1 == g_options.ranks) {
    g_shared->arrived = 0;
    g_shared->round++;
    return;
  }
  const double begin = now();
  for (int i = 0; g_shared->round == round; i++) {
    if (g_shared->dead) _exit(4);
    if (now() - begin > kMeetSeconds) fail("meet", "a rank does not come");
    if (i > 20000) usleep(5);
  }
}

// The largest over ranks.
double slowest(double mine) {
  g_shared->times[g_rank] = mine;
  meet();
  const double most = *std::max_element(g_shared->times, g_shared->times + g_options.ranks);
  meet();
  return most;
}

__host__ __device__ float value(unsigned seed, int rank, unsigned index) {
  unsigned h = seed * 2654435761u ^ (index + 0x9e3779b9u * (rank + 1));
  h ^= h >> 16;
  h *= 0x7feb352du;
  h ^= h >> 15;
  h *= 0x846ca68bu;
  h ^= h >> 16;
  return static_cast<int>(h & 511) - 256;  // whole numbers: every order of summation gives the same bits
}

__global__ void fill(float* data, size_t count, unsigned seed, int rank) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
    data[i] = value(seed, rank, i);
  }
}

__global__ void verify(const float* data, size_t count, unsigned seed, int ranks, unsigned long long* wrong) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
    float sum = 0;
    for (int rank = 0; rank < ranks; rank++) sum += value(seed, rank, i);
    if (data[i] != sum) atomicAdd(wrong, 1ull);
  }
}

struct Buffers {
  float *in, *out;
  unsigned long long* wrong;
  cudaStream_t stream;
  Comm comm;

  void run(size_t count) { NCCL(g_nccl.all_reduce(in, out, count, kFloat, kSum, comm, stream)); }
  unsigned long long check(const float* data, size_t count, unsigned seed) {
    unsigned long long mine = 0;
    CUDA(cudaMemsetAsync(wrong, 0, 8, stream));
    verify<<<132, 512, 0, stream>>>(data, count, seed, g_options.ranks, wrong);
    CUDA(cudaMemcpyAsync(&mine, wrong, 8, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    return mine;
  }
  // Seconds of one operation, of `iterations` in a row, on the slowest rank.
  double time(size_t count, int iterations) {
    meet();
    const double begin = now();
    for (int i = 0; i < iterations; i++) run(count);
    CUDA(cudaStreamSynchronize(stream));
    return slowest((now() - begin) / iterations);
  }
  double median(size_t count, int repeats, double seconds_each) {
    const double first = time(count, 2);
    const int iterations = std::clamp(static_cast<int>(seconds_each / first), 1, 50);
    std::vector<double> times;
    for (int i = 0; i < repeats; i++) times.push_back(time(count, iterations));
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
};

unsigned long long total_wrong(unsigned long long mine) {
  g_shared->wrong[g_rank] = mine;
  meet();
  unsigned long long sum = 0;
  for (int i = 0; i < g_options.ranks; i++) sum += g_shared->wrong[i];
  meet();
  return sum;
}

void measure_sizes(Buffers* buffers) {
  const double begin = now();
  for (size_t bytes = g_options.least; bytes <= g_options.most; bytes *= 4) {
    const size_t count = bytes / 4;
    fill<<<132, 512, 0, buffers->stream>>>(buffers->in, count, 5, g_rank);
    CUDA(cudaMemsetAsync(buffers->out, 0xff, bytes, buffers->stream));
    CUDA(cudaStreamSynchronize(buffers->stream));
    buffers->time(count, bytes <= (1 << 20) ? 10 : 2);
    const double us = buffers->median(count, g_options.repeats, 0.1) * 1e6;
    const unsigned long long wrong = total_wrong(buffers->check(buffers->out, count, 5));
    if (g_rank == 0) printf("%zu %.1f %llu\n", bytes, us, wrong);
    fflush(stdout);
    if (slowest(now() - begin) > g_options.limit) break;
  }
}

void measure_random(Buffers* buffers) {
  const double begin = now();
  unsigned long long wrong = 0;
  unsigned state = 12345;
  auto next = [&] { return state = state * 1664525u + 1013904223u; };
  int done = 0;
  for (; done < 10000; done++) {
    // Sizes of all magnitudes.
    const size_t limit = size_t{64} << (next() >> 28);
    const size_t count = 1 + (next() >> 4) % std::min(limit, g_options.most / 4 - 64);
    const size_t shift = (next() >> 8) % 5;
    const bool in_place = next() >> 31;
    float* in = buffers->in + shift;
    float* out = in_place ? in : buffers->out + (next() >> 8) % 5;
    fill<<<132, 512, 0, buffers->stream>>>(in, count, done, g_rank);
    NCCL(g_nccl.all_reduce(in, out, count, kFloat, kSum, buffers->comm, buffers->stream));
    if (done == 0) CUDA(cudaMemsetAsync(buffers->wrong, 0, 8, buffers->stream));
    verify<<<132, 512, 0, buffers->stream>>>(out, count, done, g_options.ranks, buffers->wrong);
    if (done % 64 == 0 && slowest(now() - begin) > g_options.limit) break;
  }
  CUDA(cudaMemcpyAsync(&wrong, buffers->wrong, 8, cudaMemcpyDeviceToHost, buffers->stream));
  CUDA(cudaStreamSynchronize(buffers->stream));
  wrong = total_wrong(wrong);
  if (g_rank == 0) printf("random %d operations, %llu wrong, %.1f s\n", done, wrong, now() - begin);
}

using Force = void (*)(int, int, int);

void measure_table(Buffers* buffers) {
  void* plugin = dlopen(g_options.plugin.c_str(), RTLD_NOW);
  if (!plugin) fail("plugin", dlerror());
  const auto force = reinterpret_cast<Force>(dlsym(plugin, "ccore_nccl_force"));
  if (!force) fail("plugin", "not the tuner plugin");
  for (size_t bytes = g_options.least; bytes <= g_options.most; bytes *= 2) {
    const size_t count = bytes / 4;
    fill<<<132, 512, 0, buffers->stream>>>(buffers->in, count, 5, g_rank);
    CUDA(cudaStreamSynchronize(buffers->stream));
    const int iterations = std::clamp(static_cast<int>(0.02 / buffers->time(count, 5)), 2, 50);
    std::vector<double> times[2];
    unsigned long long wrong = 0;
    for (int repeat = 0; repeat < 2 * (2 * g_options.repeats + 1); repeat++) {
      meet();
      force(repeat % 2 == 0 ? -2 : -1, 0, 0);
      meet();
      buffers->time(count, 2);
      times[repeat % 2].push_back(buffers->time(count, iterations));
      if (repeat < 2) wrong += total_wrong(buffers->check(buffers->out, count, 5));
    }
    for (auto& one : times) std::sort(one.begin(), one.end());
    const double own = times[0][g_options.repeats] * 1e6, table = times[1][g_options.repeats] * 1e6;
    if (g_rank == 0) printf("table %zu %.1f %.1f %.2f %llu\n", bytes, own, table, table / own, wrong);
    fflush(stdout);
  }
}

void measure_grid(Buffers* buffers) {
  void* plugin = dlopen(g_options.plugin.c_str(), RTLD_NOW);
  if (!plugin) fail("plugin", dlerror());
  const auto force = reinterpret_cast<Force>(dlsym(plugin, "ccore_nccl_force"));
  const auto last = reinterpret_cast<void (*)(Question*)>(dlsym(plugin, "ccore_nccl_last_question"));
  if (!force || !last) fail("plugin", "not the tuner plugin");
  static const char* const kAlgorithms[] = {"tree", "ring"};
  static const char* const kProtocols[] = {"ll", "ll128", "simple"};
  for (size_t bytes = g_options.least; bytes <= g_options.most; bytes *= 4) {
    const size_t count = bytes / 4;
    force(-2, 0, 0);
    buffers->run(count);
    CUDA(cudaStreamSynchronize(buffers->stream));
    Question own;
    last(&own);
    if (own.questions == 0) fail("grid", "NCCL did not ask the tuner plugin");
    const double seconds = bytes <= (1 << 18) ? 0.005 : 0.02;
    std::string line;
    for (int algorithm = -2; algorithm < 2; algorithm++) {
      for (int protocol = 0; protocol < 3; protocol++) {
        for (const int channels : {0, 1, 2, 4}) {
          const bool forced = algorithm >= 0;
          if (algorithm == -1 || (!forced && (protocol > 0 || channels > 0))) continue;
          if (forced && !(own.available >> (3 * algorithm + protocol) & 1)) continue;
          meet();
          force(algorithm, protocol, channels);
          meet();
          const double us = buffers->median(count, 3, seconds) * 1e6;
          char text[64];
          if (forced) snprintf(text, sizeof text, " %s/%s/%d %.1f", kAlgorithms[algorithm], kProtocols[protocol], channels, us);
          else snprintf(text, sizeof text, " own(%d/%d) %.1f", own.algorithm, own.protocol, us);
          line += text;
        }
      }
    }
    if (g_rank == 0) printf("grid %zu%s\n", bytes, line.c_str());
    fflush(stdout);
  }
}

template <typename Function>
void bind(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (!*function) fail(name, "not in the library");
}

int rank_main() {
  if (!g_options.netns.empty()) {
    // Network namespaces by name, one for each rank in turn.
    std::vector<std::string> names(1);
    for (const char letter : g_options.netns) {
      if (letter == ',') names.emplace_back();
      else names.back() += letter;
    }
    const std::string path = "/run/netns/" + names[g_rank % names.size()];
    const int fd = open(path.c_str(), O_RDONLY);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) fail(path.c_str(), strerror(errno));
  }
  setenv("NCCL_HOSTID", ("node" + std::to_string(g_rank)).c_str(), 1);
  CUDA(cudaSetDevice(0));
  CUDA(cudaFree(nullptr));
  void* library = dlopen(g_options.library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) fail("dlopen", dlerror());
  bind(library, "ncclGetVersion", &g_nccl.get_version);
  bind(library, "ncclGetUniqueId", &g_nccl.get_unique_id);
  bind(library, "ncclCommInitRank", &g_nccl.init_rank);
  bind(library, "ncclAllReduce", &g_nccl.all_reduce);
  bind(library, "ncclCommDestroy", &g_nccl.destroy);
  bind(library, "ncclGetLastError", &g_nccl.last_error);
  if (g_rank == 0) {
    NCCL(g_nccl.get_unique_id(&g_shared->id));
    g_shared->have_id = 1;
  }
  while (!g_shared->have_id && !g_shared->dead) usleep(100);
  Buffers buffers{};
  const double begin = now();
  NCCL(g_nccl.init_rank(&buffers.comm, g_options.ranks, g_shared->id, g_rank));
  int version = 0;
  g_nccl.get_version(&version);
  if (g_rank == 0) printf("# NCCL %d, %d ranks, init %.0f ms\n", version, g_options.ranks, (now() - begin) * 1e3);
  CUDA(cudaMalloc(&buffers.in, g_options.most));
  CUDA(cudaMalloc(&buffers.out, g_options.most));
  CUDA(cudaMalloc(&buffers.wrong, 8));
  CUDA(cudaStreamCreateWithFlags(&buffers.stream, cudaStreamNonBlocking));
  if (g_options.mode == "random") measure_random(&buffers);
  else if (g_options.mode == "grid") measure_grid(&buffers);
  else if (g_options.mode == "table") measure_table(&buffers);
  else measure_sizes(&buffers);
  NCCL(g_nccl.destroy(buffers.comm));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: %s NCCL_LIBRARY [name=value]..\n", argv[0]), 2;
  g_options.library = argv[1];
  for (int i = 2; i < argc; i++) {
    const std::string word = argv[i];
    const std::string name = word.substr(0, word.find('=')), text = word.substr(std::min(word.size(), name.size() + 1));
    if (name == "ranks") g_options.ranks = atoi(text.c_str());
    else if (name == "min") g_options.least = atoll(text.c_str());
    else if (name == "max") g_options.most = atoll(text.c_str());
    else if (name == "mode") g_options.mode = text;
    else if (name == "plugin") g_options.plugin = text;
    else if (name == "limit") g_options.limit = atof(text.c_str());
    else if (name == "netns") g_options.netns = text;
    else if (name == "repeats") g_options.repeats = atoi(text.c_str());
    else return fprintf(stderr, "unknown option %s\n", word.c_str()), 2;
  }
  if (g_options.ranks < 2 || g_options.ranks > kMostRanks) return fprintf(stderr, "ranks: 2 to 16\n"), 2;
  g_shared = new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared();
  std::vector<pid_t> children;
  for (g_rank = 0; g_rank < g_options.ranks; g_rank++) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int code = rank_main();
      fflush(stdout);
      _exit(code);
    }
    children.push_back(child);
  }
  int worst = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    worst = 1;
    g_shared->dead = 1;
  }
  return worst;
}
