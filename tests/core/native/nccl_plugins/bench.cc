// Two processes over loopback, each with one thread that drives all connections, as NCCL's proxy thread does.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "any_net.h"
#include "connection.h"

using namespace ccore::nccl;

namespace {

constexpr int kMostChannels = 8;
constexpr size_t kDepth = 8;  // messages in flight on a connection, as with NCCL_STEPS

struct Shared {
  std::atomic<int> arrived{0};
  std::atomic<int> round{0};
  std::atomic<int> listening{0};
  char handles[2][kMostChannels][kHandleBytes];
  double times[2];
};

void meet(Shared* shared) {
  const int round = shared->round.load();
  if (shared->arrived.fetch_add(1) == 1) {
    shared->arrived.store(0);
    shared->round.fetch_add(1);
    return;
  }
  for (int i = 0; shared->round.load() == round; ++i) {
    if (i > 1000) sched_yield();
  }
}

void check(Result result) {
  if (result != kSuccess) throw std::runtime_error(last_warning());
}

struct Channel {
  void* listener = nullptr;
  void* send_comm = nullptr;
  void* receive_comm = nullptr;
  std::vector<std::byte> out;
  std::vector<std::byte> in;
  void* sends[kDepth];
  void* receives[kDepth];
  size_t send_posted = 0, send_done = 0, receive_posted = 0, receive_done = 0;
};

// One round of the proxy's loop. allowed: how many messages may be sent by now.
void progress(const AnyNet& net, Channel* channel, size_t size, size_t count, size_t allowed) {
  if (channel->receive_posted < count && channel->receive_posted < channel->receive_done + kDepth) {
    void** request = &channel->receives[channel->receive_posted % kDepth];
    check(net.receive(channel->receive_comm, channel->in.data() + channel->receive_posted % kDepth * size, size,
                      request));
    if (*request) ++channel->receive_posted;
  }
  if (channel->send_posted < std::min(count, allowed) && channel->send_posted < channel->send_done + kDepth) {
    void** request = &channel->sends[channel->send_posted % kDepth];
    check(net.send(channel->send_comm, channel->out.data() + channel->send_posted % kDepth * size, size, request));
    if (*request) ++channel->send_posted;
  }
  int done = 0;
  if (channel->send_done < channel->send_posted) {
    check(net.test(channel->sends[channel->send_done % kDepth], &done, nullptr));
    if (done) ++channel->send_done;
  }
  if (channel->receive_done < channel->receive_posted) {
    check(net.test(channel->receives[channel->receive_done % kDepth], &done, nullptr));
    if (done) ++channel->receive_done;
  }
}

// Sends and receives `count` messages on each channel. steps: how many may be ahead of what was received.
double exchange(const AnyNet& net, std::vector<Channel>* channels, size_t size, size_t count, size_t ahead) {
  for (Channel& one : *channels) one.send_posted = one.send_done = one.receive_posted = one.receive_done = 0;
  const double begin = seconds_now();
  bool all = false;
  while (!all) {
    all = true;
    for (Channel& one : *channels) {
      progress(net, &one, size, count, one.receive_done + ahead);
      all = all && one.send_done == count && one.receive_done == count;
    }
  }
  return seconds_now() - begin;
}

int run(Shared* shared, const std::string& library, int rank, int channel_count, size_t most) {
  const AnyNet net = load_net(library, 11);
  check(net.init(keep_warning));
  std::vector<Channel> channels(static_cast<size_t>(channel_count));
  for (size_t i = 0; i < channels.size(); ++i) {
    check(net.listen(0, shared->handles[rank][i], &channels[i].listener));
    channels[i].out.resize(kDepth * most);
    channels[i].in.resize(kDepth * most);
  }
  meet(shared);
  for (size_t i = 0; i < channels.size(); ++i) {
    Channel& one = channels[i];
    while (!one.send_comm || !one.receive_comm) {
      if (!one.send_comm) check(net.connect(0, shared->handles[1 - rank][i], &one.send_comm));
      if (!one.receive_comm) check(net.accept(one.listener, &one.receive_comm));
    }
  }
  for (size_t size = 1024; size <= most; size *= 2) {
    const size_t count = std::clamp<size_t>((size_t{64} << 20) / size, 32, 400);
    exchange(net, &channels, size, count / 2, 1);
    std::vector<double> steps, streams;
    for (int repeat = 0; repeat < 5; ++repeat) {
      meet(shared);
      shared->times[rank] = exchange(net, &channels, size, count, 1);
      meet(shared);
      steps.push_back(std::max(shared->times[0], shared->times[1]) / static_cast<double>(count));
      meet(shared);
      shared->times[rank] = exchange(net, &channels, size, count, kDepth);
      meet(shared);
      streams.push_back(std::max(shared->times[0], shared->times[1]) / static_cast<double>(count));
    }
    std::sort(steps.begin(), steps.end());
    std::sort(streams.begin(), streams.end());
    if (rank == 0) {
      const double bytes = static_cast<double>(size) * channel_count;
      std::printf("%8zu B x %d: step %8.1f us  stream %6.2f GB/s each way\n", size, channel_count, steps[2] * 1e6,
                  bytes / streams[2] / 1e9);
      std::fflush(stdout);
    }
  }
  meet(shared);
  for (Channel& one : channels) {
    net.close_send(one.send_comm);
    net.close_receive(one.receive_comm);
    net.close_listener(one.listener);
  }
  net.finalize();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s LIBRARY [CHANNELS [MOST_BYTES]]\n", argv[0]);
    return 2;
  }
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  const int channels = std::clamp(argc > 2 ? std::atoi(argv[2]) : 2, 1, kMostChannels);
  const size_t most = argc > 3 ? static_cast<size_t>(std::atoll(argv[3])) : size_t{1} << 20;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* shared = new (memory) Shared();
  const pid_t child = fork();
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    run(shared, argv[1], child == 0 ? 1 : 0, channels, most);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(1);
  }
  if (child == 0) _exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
