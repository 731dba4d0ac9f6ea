// Descriptors of memory between ranks: who may connect, messages, full queues, ranks that are missing or gone, limits of
// open files, and segments that arrive whole or not at all.
#include "memory/descriptor_channel.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "fake_virtual_memory.h"
#include "memory/segment_transfer.h"
#include "memory/segments.h"

namespace test {
namespace {

using namespace ccore_cuda;
using Sent = DescriptorChannel::Sent;
using Reports = FakeVirtualMemory::Reports;

constexpr int64_t kLimitNs = 60000000000;  // for a loaded machine; no test waits that long by itself
constexpr uintptr_t kBase = uintptr_t{1} << 40;

std::vector<ChannelAddress> addresses_of(const std::vector<ChannelListener>& listeners) {
  std::vector<ChannelAddress> addresses;
  for (const ChannelListener& one : listeners) addresses.push_back(one.address());
  return addresses;
}

// channels[a][b]: of rank a to rank b.
std::vector<std::vector<DescriptorChannel>> connected(size_t size) {
  const std::vector<ChannelListener> listeners(size);
  const auto addresses = addresses_of(listeners);
  std::vector<std::future<std::vector<DescriptorChannel>>> ranks;
  for (size_t rank = 0; rank < size; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      return listeners[rank].connect_all(static_cast<int>(rank), addresses, kLimitNs);
    }));
  }
  std::vector<std::vector<DescriptorChannel>> channels;
  for (auto& rank : ranks) channels.push_back(rank.get());
  return channels;
}

Descriptor new_file() { return Descriptor(memfd_create("test", MFD_CLOEXEC)); }

DescriptorMessage message_of(uint32_t place, uint32_t count) {
  DescriptorMessage message{};
  message.place = place;
  message.total = message.count = count;
  return message;
}

void every_pair() {
  const auto channels = connected(5);
  for (size_t from = 0; from < 5; ++from) {
    for (size_t to = 0; to < 5; ++to) {
      if (from == to) continue;
      std::vector<Descriptor> files;
      for (size_t i = 0; i < kMostDescriptors; ++i) files.push_back(new_file());
      const auto place = static_cast<uint32_t>(10 * from + to);
      const DescriptorMessage message = message_of(place, kMostDescriptors);
      EXPECT(!channels[to][from].receive(), "received before it was sent");
      EXPECT(channels[from][to].send(message, files) == Sent::kDone, from, " to ", to);
      const auto received = channels[to][from].receive();
      EXPECT(received && received->message.place == place, from, " to ", to);
      EXPECT(received->descriptors.size() == kMostDescriptors, received->descriptors.size());
      for (size_t i = 0; i < kMostDescriptors; ++i) {
        const int got = received->descriptors[i].number();
        EXPECT(got != files[i].number(), "the same descriptor");
        EXPECT(FakeVirtualMemory::inode(got) == FakeVirtualMemory::inode(files[i].number()), "file ", i);
        EXPECT(fcntl(got, F_GETFD) & FD_CLOEXEC, "a child would inherit it");
      }
    }
  }
}

void full_and_gone() {
  auto channels = connected(2);
  std::vector<Descriptor> files;
  files.push_back(new_file());
  uint32_t sent = 0;
  while (channels[0][1].send(message_of(sent, 1), files) == Sent::kDone) EXPECT(++sent < 100000, "never full");
  EXPECT(sent > 0, "nothing fits");
  EXPECT(channels[0][1].send(message_of(sent, 1), files) == Sent::kFull, "it is full");
  for (uint32_t i = 0; i < sent; ++i) {
    const auto received = channels[1][0].receive();
    EXPECT(received && received->message.place == i, "message ", i);
  }
  EXPECT(channels[0][1].send(message_of(sent, 1), files) == Sent::kDone, "it is empty again");
  channels[1].clear();
  EXPECT(channels[0][1].send(message_of(0, 1), files) == Sent::kFailed, "the peer is gone");
  EXPECT(!channels[0][1].receive(), "from a peer that is gone");
}

void missing_rank() {
  const std::vector<ChannelListener> listeners(3);
  const auto addresses = addresses_of(listeners);
  auto first = std::async(std::launch::async, [&] { return listeners[1].connect_all(1, addresses, kLimitNs / 300); });
  try {
    listeners[0].connect_all(0, addresses, kLimitNs / 300);
    EXPECT(false, "rank 2 is missing");
  } catch (const ChannelError& error) {
    EXPECT(contains(error.what(), "rank 2 did not connect by the deadline"), error.what());
  }
  try {
    first.get();
    EXPECT(false, "rank 2 is missing");
  } catch (const ChannelError& error) {
    EXPECT(contains(error.what(), "rank 2"), error.what());
  }
  std::vector<ChannelAddress> wrong = addresses;
  std::strcpy(wrong[0].name, "ccore-of-nobody");
  try {
    listeners[1].connect_all(1, wrong, kLimitNs);
    EXPECT(false, "nobody has that name");
  } catch (const ChannelError& error) {
    EXPECT(contains(error.what(), "connecting to rank 0"), error.what());
  }
}

// A connection to the listener, before any rank has one.
int connect_as_stranger(const ChannelAddress& address) {
  const int stranger = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strcpy(name.sun_path + 1, address.name);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + std::strlen(address.name));
  EXPECT(connect(stranger, reinterpret_cast<const sockaddr*>(&name), bytes) == 0, std::strerror(errno));
  return stranger;
}

struct Greeting {
  unsigned char token[16];
  int32_t rank;
};

void strangers_are_sent_away() {
  const std::vector<ChannelListener> listeners(2);
  const auto addresses = addresses_of(listeners);
  std::vector<Descriptor> strangers;
  const auto greet = [&](int32_t rank, bool has_token) {
    Greeting greeting{{}, rank};
    if (has_token) std::memcpy(greeting.token, addresses[0].token, sizeof greeting.token);
    strangers.emplace_back(connect_as_stranger(addresses[0]));
    EXPECT(send(strangers.back().number(), &greeting, sizeof greeting, 0) == sizeof greeting, "greeting");
  };
  greet(1, false);
  greet(0, true);  // the rank of the listener
  greet(2, true);  // a rank that does not exist
  strangers.emplace_back(connect_as_stranger(addresses[0]));
  EXPECT(send(strangers.back().number(), "x", 1, 0) == 1, "too short");
  strangers.emplace_back(connect_as_stranger(addresses[0]));  // says nothing
  if (geteuid() == 0) {
    int greeted[2];
    EXPECT(pipe(greeted) == 0, std::strerror(errno));
    const pid_t child = fork();
    if (child == 0) {
      if (setuid(65534) != 0) _exit(2);
      Greeting greeting{{}, 1};
      std::memcpy(greeting.token, addresses[0].token, sizeof greeting.token);
      const int other_user = connect_as_stranger(addresses[0]);
      char byte = 0;
      const bool is_sent = send(other_user, &greeting, sizeof greeting, MSG_NOSIGNAL) == sizeof greeting;
      const bool is_told = write(greeted[1], "x", 1) == 1;
      // 0 bytes, or a reset: the connection was closed.
      _exit(is_sent && is_told && recv(other_user, &byte, 1, 0) <= 0 ? 0 : 1);
    }
    // The ranks may be connected before a child that starts late has greeted, and nothing would answer it.
    char byte = 0;
    close(greeted[1]);
    EXPECT(read(greeted[0], &byte, 1) == 1, "the other user did not greet");
    close(greeted[0]);
    auto ranks = std::async(std::launch::async, [&] { return listeners[1].connect_all(1, addresses, kLimitNs); });
    listeners[0].connect_all(0, addresses, kLimitNs);
    ranks.get();
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "another user was not sent away: ", status);
  } else {
    auto ranks = std::async(std::launch::async, [&] { return listeners[1].connect_all(1, addresses, kLimitNs); });
    listeners[0].connect_all(0, addresses, kLimitNs);
    ranks.get();
  }
  for (const Descriptor& stranger : strangers) {
    char byte = 0;
    EXPECT(recv(stranger.number(), &byte, 1, 0) <= 0, "a stranger is still connected");
  }
}

// An owner with segments of different sizes, and a peer.
struct Pair {
  explicit Pair(size_t count) : channels(connected(2)), owner(Reports::kReservations), peer(Reports::kMappings) {
    owner.reserve_range(kBase, size_t{1} << 40);
    uintptr_t at = kBase;
    for (size_t i = 0; i < count; ++i) {
      owner.create_at(at, (1 + i % 3) * kStep);
      at += (1 + i % 3) * kStep;
    }
    segments = Segments::behind(&owner, kBase, at - kBase);
  }
  SegmentsSent send(const ExportName& name) {
    return send_segments(
        &owner, segments, name, {&channels[0][1]}, [this](size_t) { ++sent; },
        [this] {
          ++waits;
          collect();
          return waits < most_waits;
        });
  }
  void collect() {
    while (is_reading) {
      const auto received = channels[1][0].receive();
      if (!received) return;
      arrivals.take(0, *received);
    }
  }

  std::vector<std::vector<DescriptorChannel>> channels;
  FakeVirtualMemory owner, peer;
  Arrivals arrivals{&peer};
  Segments segments;
  int sent = 0, waits = 0, most_waits = 1000000;
  bool is_reading = true;
};

void expect_mapped(Pair* pair, const Arrivals::Mapping& mapping) {
  EXPECT(mapping.address != 0 && mapping.bytes == pair->segments.bytes(), mapping.bytes);
  for (const Segment& segment : pair->segments.list()) {
    const PhysicalMemory there = pair->peer.memory_at(mapping.address + (segment.base - kBase));
    EXPECT(pair->peer.file_of(there) == pair->owner.file_of(segment.memory), "other memory");
  }
  EXPECT(pair->peer.live() == pair->segments.list().size(), "the mapping alone holds the memory");
  pair->peer.unmap(mapping.address, mapping.bytes);
  EXPECT(pair->peer.live() == 0 && pair->peer.mappings() == 0, "unmapped, and something is left");
}

void segments_arrive() {
  for (const size_t count : {size_t{1}, kMostDescriptors, kMostDescriptors + 1, Segments::kMost}) {
    Pair pair(count);
    EXPECT(pair.segments.list().size() == count, count);
    EXPECT(pair.send({3, 5}) == SegmentsSent::kAll, count);
    pair.collect();
    EXPECT(pair.sent == static_cast<int>((count + kMostDescriptors - 1) / kMostDescriptors), pair.sent);
    expect_mapped(&pair, pair.arrivals.map(0, {3, 5}));
    EXPECT(pair.arrivals.map(0, {3, 5}).address == 0, "mapped twice");
  }
}

// One that arrived in part, of another state, or of another place is not mapped.
void nothing_by_halves() {
  Pair pair(3 * kMostDescriptors);
  EXPECT(pair.send({3, 5}) == SegmentsSent::kAll, "sent");
  pair.arrivals.take(0, *pair.channels[1][0].receive());
  EXPECT(pair.arrivals.map(0, {4, 5}).address == 0, "of another place");
  EXPECT(pair.arrivals.map(0, {3, 5}).address == 0, "a third of it");
  pair.collect();
  EXPECT(pair.arrivals.map(0, {3, 5}).address == 0, "without the first third");
  EXPECT(pair.peer.live() == 0, "memory is left");
  EXPECT(pair.send({3, 7}) == SegmentsSent::kAll, "sent again");
  pair.collect();
  EXPECT(pair.arrivals.map(0, {3, 9}).address == 0, "of another state");
  EXPECT(pair.peer.live() == 0, "memory is left");
}

// The owner gives up because the peer does not receive; the next export of the place is whole.
void peer_is_slow() {
  Pair pair(Segments::kMost);
  pair.is_reading = false;
  pair.most_waits = 3;
  SegmentsSent result = SegmentsSent::kAll;
  for (uint32_t state = 1; result == SegmentsSent::kAll; state += 2) {
    EXPECT(state < 100000, "never full");
    result = pair.send({3, state});
  }
  EXPECT(result == SegmentsSent::kLate && pair.waits == 3, pair.waits);
  pair.is_reading = true;
  pair.collect();
  pair.most_waits = 1000000;
  EXPECT(pair.send({3, 100001}) == SegmentsSent::kAll, "sent again");
  pair.collect();
  expect_mapped(&pair, pair.arrivals.map(0, {3, 100001}));
}

void refused() {
  Pair pair(3);
  pair.owner.refuses_exports = true;
  EXPECT(pair.send({3, 5}) == SegmentsSent::kRefused && pair.sent == 0, "the driver refuses");
  pair.owner.refuses_exports = false;
  pair.channels[1].clear();
  EXPECT(pair.send({3, 5}) == SegmentsSent::kRefused, "the peer is gone");
}

// The peer may open no more files when a message comes.
void no_more_files() {
  Pair pair(10);
  EXPECT(pair.send({3, 5}) == SegmentsSent::kAll, "sent");
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const Descriptor next = new_file();
  const rlimit few{static_cast<rlim_t>(next.number()) + 4, before.rlim_max};
  EXPECT(setrlimit(RLIMIT_NOFILE, &few) == 0, std::strerror(errno));
  pair.collect();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT(pair.arrivals.map(0, {3, 5}).address == 0 && pair.peer.live() == 0, "mapped a part");
  EXPECT(pair.send({3, 7}) == SegmentsSent::kAll, "sent again");
  pair.collect();
  expect_mapped(&pair, pair.arrivals.map(0, {3, 7}));
}

}  // namespace

void cuda_descriptors() {
  every_pair();
  full_and_gone();
  missing_rank();
  strangers_are_sent_away();
  segments_arrive();
  nothing_by_halves();
  peer_is_slow();
  refused();
  no_more_files();
}

}  // namespace test
