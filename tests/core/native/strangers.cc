// Thousands of connections that never prove anything: which of them make room, and that ranks get in among them.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "cases.h"
#include "common/error.h"
#include "expect.h"
#include "ranks.h"
#include "rendezvous/reach.h"
#include "rendezvous/unique_id.h"
#include "transport/tcp/acceptor.h"
#include "transport/tcp/crowd.h"

namespace test {
namespace {

constexpr int64_t kMs = 1000000;
const char* const kAcceptor = "the acceptor";

ccore::Deadline soon() { return ccore::Deadline::in_ms(20000); }

// A crowd whose members come from given addresses at given times, over pairs of sockets.
class Gathering {
 public:
  explicit Gathering(size_t most) : crowd(most) {}

  void add(const std::string& host, int64_t ms) {
    int ends[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    others_.emplace_back(ends[1]);
    crowd.add(ccore::Applicant(ccore::UniqueFd(ends[0])), ccore::resolve(host, 0), ms * kMs);
  }

  // When the connection came that makes room at that time; -1 without one.
  int64_t victim(int64_t at_ms) {
    const auto found = crowd.victim(at_ms * kMs);
    return found ? (*found)->since_ns / kMs : -1;
  }

  ccore::Crowd crowd;

 private:
  std::vector<ccore::UniqueFd> others_;
};

void the_oldest_of_the_largest_host_makes_room() {
  Gathering all(1024);
  all.add("10.0.0.1", 0);
  for (int64_t ms = 1; ms <= 3; ++ms) all.add("10.0.0.2", ms);
  EXPECT(all.victim(100) == 1, "the flood of one address pushed out another's: ", all.victim(100));
  all.crowd.erase(*all.crowd.victim(100 * kMs));
  EXPECT(all.victim(100) == 2, all.victim(100));
  all.crowd.erase(*all.crowd.victim(100 * kMs));
  EXPECT(all.victim(100) == 0, "of hosts with the same number, the oldest: ", all.victim(100));
}

void there_is_time_for_a_proof() {
  Gathering all(1024);
  all.add("10.0.0.1", 100);
  EXPECT(all.victim(119) == -1 && all.victim(120) == 100, "20 ms");
  EXPECT(all.crowd.next_victim_ns() == 120 * kMs, all.crowd.next_victim_ns());
  // A small crowd has less, or strangers would fill the listener's queue.
  Gathering few(20);
  few.add("10.0.0.1", 100);
  EXPECT(few.victim(100) == -1 && few.victim(101) == 100, "1 ms");
}

// Otherwise strangers that hold all places, each from its own address, would leave one place to all others.
void the_old_make_room_for_all() {
  Gathering all(1024);
  all.add("10.0.0.1", 0);
  all.add("10.0.0.2", 490);
  all.add("10.0.0.2", 495);
  EXPECT(all.victim(499) == -1, all.victim(499));
  EXPECT(all.victim(500) == 0, all.victim(500));
}

void a_network_of_one_host_counts_as_one() {
  Gathering all(1024);
  all.add("2001:db8:0:1::1", 0);
  all.add("2001:db8:0:2::1", 1);
  all.add("2001:db8:0:2::2", 2);
  EXPECT(all.victim(100) == 1, "one /64: ", all.victim(100));
  Gathering link(1024);
  link.add("fe80::1", 0);
  link.add("fe80::2", 1);
  EXPECT(link.victim(100) == 0, "a link has many hosts: ", link.victim(100));
  link.add("::ffff:10.0.0.1", 2);
  link.add("::ffff:10.0.0.2", 3);
  EXPECT(link.victim(100) == 0, "IPv4 over an IPv6 socket: ", link.victim(100));
}

struct Door {
  explicit Door(size_t most) : secret{}, acceptor(listeners(), secret, most) {}

  std::vector<ccore::UniqueFd> listeners() {
    std::vector<ccore::UniqueFd> all;
    all.push_back(ccore::listen_on(ccore::resolve("127.0.0.1", 0), false));
    address = ccore::local_address(all.front().get());
    return all;
  }

  ccore::UniqueFd stranger() const { return ccore::connect_to(address, soon()); }

  ccore::Digest secret;
  ccore::Address address;
  ccore::Acceptor acceptor;
};

// A rank that was dropped before its proof was judged tries again; one that was refused does not.
void a_lost_place_is_not_a_refusal() {
  Door door(2);
  const ccore::UniqueFd first = door.stranger();
  EXPECT(!door.acceptor.next(ccore::Deadline::in_ms(20)), "nothing was proven");
  std::vector<ccore::UniqueFd> others;
  for (int i = 0; i < 4; ++i) others.push_back(door.stranger());
  EXPECT(!door.acceptor.next(ccore::Deadline::in_ms(50)), "nothing was proven");
  bool again = false;
  try {
    ccore::introduce(first.get(), door.secret, ccore::Hello{}, soon(), kAcceptor);
  } catch (const ccore::Unnoticed&) {
    again = true;
  }
  EXPECT(again, "the oldest kept its place");

  std::atomic<bool> answered{false};
  run_threads(2, [&](int side) {
    if (side == 0) {
      while (!answered) EXPECT(!door.acceptor.next(ccore::Deadline::in_ms(20)), "the wrong secret was believed");
      return;
    }
    ccore::Digest wrong{};
    wrong[0] = 1;
    std::string told = "the wrong secret was believed";
    bool unnoticed = false;
    try {
      ccore::reach(door.address, wrong, ccore::Hello{}, soon(), kAcceptor);
    } catch (const ccore::Error& error) {
      told = error.what();
      unnoticed = dynamic_cast<const ccore::Unnoticed*>(&error) != nullptr;
    }
    answered = true;
    EXPECT(!unnoticed && contains(told, "wrong job secret?"), told);
  });
}

// Strangers ask for each of the few places all the time.
void ranks_get_in_among_strangers_that_come_again() {
  constexpr int kRanks = 20;
  Door door(8);
  std::atomic<bool> done{false};
  run_threads(3, [&](int side) {
    if (side == 0) {
      const ccore::Deadline deadline = soon();
      for (int i = 0; i < kRanks; ++i) EXPECT(door.acceptor.next(deadline), "rank ", i, " did not get in");
      done = true;
    } else if (side == 1) {
      for (int i = 0; i < kRanks; ++i) ccore::reach(door.address, door.secret, ccore::Hello{}, soon(), kAcceptor);
    } else {
      std::vector<ccore::UniqueFd> strangers(30);
      for (size_t i = 0; i < 100000 && !done; ++i) {
        ccore::UniqueFd& place = strangers[i % strangers.size()];
        if (place) ccore::reset_on_close(place.get());
        place = ccore::connect_to(door.address, soon());
      }
    }
  });
}

double cpu_s() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// Without a free descriptor the acceptor waits, and does not use the processor meanwhile.
void it_waits_for_descriptors() {
  Door door(8);
  const ccore::UniqueFd waiting = door.stranger();
  rlimit before{};
  EXPECT(getrlimit(RLIMIT_NOFILE, &before) == 0, "getrlimit");
  // Those of the standard streams, which stay: a thread of an earlier rendezvous may be about to close any other.
  rlimit none = before;
  none.rlim_cur = 3;
  EXPECT(setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit");
  std::string text;
  const double began_s = cpu_s();
  try {
    door.acceptor.next(soon());
  } catch (const ccore::Error& error) {
    text = error.what();
  }
  const double used_s = cpu_s() - began_s;
  EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0, "setrlimit");
  EXPECT(contains(text, "accept: Too many open files"), text);
  EXPECT(used_s < 0.3, used_s, " s of a processor in a second of waiting");
}

// Processes with so many silent connections each, until they are ended.
class Crowds {
 public:
  Crowds(int processes, int each, const ccore::Address& address) {
    int ready[2];
    EXPECT(pipe2(ready, O_CLOEXEC) == 0, "pipe2");
    for (int i = 0; i < processes; ++i) {
      const pid_t pid = fork();
      EXPECT(pid >= 0, "fork");
      if (pid == 0) be_silent(each, address, ready[1]);
      pids_.push_back(pid);
    }
    close(ready[1]);
    char byte = 0;
    for (int i = 0; i < processes; ++i) EXPECT(read(ready[0], &byte, 1) == 1, "a crowd ended before it came");
    close(ready[0]);
  }
  ~Crowds() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  Crowds(const Crowds&) = delete;
  Crowds& operator=(const Crowds&) = delete;

 private:
  // In a child of a process with threads: system calls only.
  [[noreturn]] static void be_silent(int count, const ccore::Address& address, int ready) {
    alarm(60);
    const auto needed = static_cast<rlim_t>(count + 100);
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
    setrlimit(RLIMIT_NOFILE, &limit);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < count; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
      if (fd < 0) _exit(1);
      if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS) _exit(1);
    }
    if (write(ready, "", 1) != 1) _exit(1);
    while (true) pause();
  }

  std::vector<pid_t> pids_;
};

// While silent connections were waited for, each 1,024 of them took ten seconds: longer than all the time that ranks have.
void ten_thousand_silent_connections_do_not_delay_the_start() {
  cc_unique_id id;
  EXPECT(cc_get_unique_id(&id) == CC_SUCCESS, cc_last_error(nullptr));
  const Crowds crowds(4, 2500, ccore::decode(id).address);
  run_threads(3, [&](int rank) {
    cc_config config{};
    config.size = sizeof config;
    config.init_timeout_ms = 20000;
    cc_comm* comm = nullptr;
    EXPECT(cc_comm_init_rank(&comm, 3, &id, rank, &config) == CC_SUCCESS, cc_last_error(nullptr));
    EXPECT(cc_comm_destroy(comm) == CC_SUCCESS, "destroy");
  });
}

}  // namespace

void strangers() {
  the_oldest_of_the_largest_host_makes_room();
  there_is_time_for_a_proof();
  the_old_make_room_for_all();
  a_network_of_one_host_counts_as_one();
  a_lost_place_is_not_a_refusal();
  ranks_get_in_among_strangers_that_come_again();
  it_waits_for_descriptors();
  ten_thousand_silent_connections_do_not_delay_the_start();
}

}  // namespace test
