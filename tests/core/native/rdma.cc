// The verbs transport over a stand-in for libibverbs: the link's contract, every kind of failure, and what is left.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cases.h"
#include "common/clock.h"
#include "common/error.h"
#include "expect.h"
#include "ranks.h"
#include "sessions.h"
#include "sysfs.h"
#include "topology/pci.h"
#include "transport/fault_link.h"
#include "transport/progress.h"
#include "transport/rdma/rdma_link.h"
#include "verbs_stand_in.h"

#if __has_include(<infiniband/verbs.h>)
#include <infiniband/verbs.h>
namespace {
namespace own = ccore::ibv;
#define SAME_SIZE(ours, theirs) static_assert(sizeof(own::ours) == sizeof(theirs), #theirs)
#define SAME_PLACE(ours, theirs, member) \
  static_assert(offsetof(own::ours, member) == offsetof(theirs, member), #theirs "." #member)
SAME_SIZE(Gid, ibv_gid);
SAME_SIZE(GidEntry, ibv_gid_entry);
SAME_SIZE(Device, ibv_device);
SAME_PLACE(Device, ibv_device, transport_type);
SAME_PLACE(Device, ibv_device, name);
SAME_SIZE(PortAttr, ibv_port_attr);
SAME_PLACE(PortAttr, ibv_port_attr, lid);
SAME_PLACE(PortAttr, ibv_port_attr, link_layer);
SAME_SIZE(AsyncEvent, ibv_async_event);
SAME_SIZE(Wc, ibv_wc);
SAME_PLACE(Wc, ibv_wc, imm_data);
SAME_SIZE(Mr, ibv_mr);
SAME_PLACE(Mr, ibv_mr, rkey);
SAME_SIZE(CompChannel, ibv_comp_channel);
SAME_SIZE(Cq, ibv_cq);
SAME_SIZE(Qp, ibv_qp);
SAME_PLACE(Qp, ibv_qp, qp_num);
SAME_SIZE(QpInitAttr, ibv_qp_init_attr);
SAME_SIZE(AhAttr, ibv_ah_attr);
SAME_PLACE(AhAttr, ibv_ah_attr, port_num);
SAME_SIZE(QpAttr, ibv_qp_attr);
SAME_PLACE(QpAttr, ibv_qp_attr, ah_attr);
SAME_PLACE(QpAttr, ibv_qp_attr, timeout);
SAME_PLACE(QpAttr, ibv_qp_attr, rnr_retry);
SAME_SIZE(Sge, ibv_sge);
SAME_SIZE(SendWr, ibv_send_wr);
SAME_PLACE(SendWr, ibv_send_wr, imm_data);
SAME_PLACE(SendWr, ibv_send_wr, wr);
SAME_SIZE(RecvWr, ibv_recv_wr);
SAME_SIZE(ContextOps, ibv_context_ops);
SAME_PLACE(ContextOps, ibv_context_ops, poll_cq);
SAME_PLACE(ContextOps, ibv_context_ops, req_notify_cq);
SAME_PLACE(ContextOps, ibv_context_ops, post_send);
SAME_PLACE(ContextOps, ibv_context_ops, post_recv);
SAME_SIZE(Context, ibv_context);
SAME_PLACE(Context, ibv_context, async_fd);
#define SAME_NUMBER(ours, theirs) static_assert(static_cast<int>(own::ours) == static_cast<int>(theirs), #theirs)
SAME_NUMBER(kWcReceive, IBV_WC_RECV);
SAME_NUMBER(kWcFlushed, IBV_WC_WR_FLUSH_ERR);
SAME_NUMBER(kWcRetriesExceeded, IBV_WC_RETRY_EXC_ERR);
SAME_NUMBER(kWcReceiverNotReady, IBV_WC_RNR_RETRY_EXC_ERR);
SAME_NUMBER(kWrite, IBV_WR_RDMA_WRITE);
SAME_NUMBER(kWriteWithImmediate, IBV_WR_RDMA_WRITE_WITH_IMM);
SAME_NUMBER(kEventEstablished, IBV_EVENT_COMM_EST);
SAME_NUMBER(kEventDrained, IBV_EVENT_SQ_DRAINED);
SAME_NUMBER(kEventPortError, IBV_EVENT_PORT_ERR);
SAME_NUMBER(kEventDeviceFatal, IBV_EVENT_DEVICE_FATAL);
SAME_NUMBER(kQpReadyToReceive, IBV_QPS_RTR);
SAME_NUMBER(kQpReadyToSend, IBV_QPS_RTS);
SAME_NUMBER(kQpReliable, IBV_QPT_RC);
SAME_NUMBER(kQpDestination, IBV_QP_DEST_QPN);
SAME_NUMBER(kQpSqPsn, IBV_QP_SQ_PSN);
SAME_NUMBER(kQpRnrRetry, IBV_QP_RNR_RETRY);
SAME_NUMBER(kGidRoceV2, IBV_GID_TYPE_ROCE_V2);
SAME_NUMBER(kLinkEthernet, IBV_LINK_LAYER_ETHERNET);
}  // namespace
#endif

namespace test {
namespace {

const std::string kOwn = "rank 0 (host near, pid 5)";
const std::string kPeer = "rank 3 (host far, pid 7)";
// For a loaded machine.
constexpr int64_t kPatienceMs = 300000;
constexpr size_t kFirstRing = 16 * 1024;
constexpr size_t kMostRing = 512 * 1024;

const VerbsControl& control() {
  void* library = dlopen(CCORE_STAND_IN_VERBS, RTLD_NOW | RTLD_LOCAL);
  EXPECT(library, dlerror());
  const auto* found = static_cast<const VerbsControl*>(dlsym(library, "stand_in_control"));
  EXPECT(found, "no control of the stand-in");
  return *found;
}

// Faults for the time of a scope.
class Faulty {
 public:
  explicit Faulty(const VerbsFaults& faults) { control().set(&faults); }
  ~Faulty() { control().set(nullptr); }
  Faulty(const Faulty&) = delete;
  Faulty& operator=(const Faulty&) = delete;
};

ccore::RdmaRails open_device(const ccore::RdmaWish& wish, int local_rank = 0, const ccore::Surroundings& around = {}) {
  return ccore::open_rails(wish, ccore::resolve("127.0.0.1", 0), [&](const std::vector<std::string>& devices) {
    return dealt_out(devices, local_rank, around);
  });
}

ccore::RdmaRails device(int queue_pairs = 1, const char* name = "") {
  ccore::RdmaWish wish;
  wish.device = name;
  wish.queue_pairs = queue_pairs;
  return open_device(wish);
}

std::string text_of(const ccore::RdmaRails& rails) { return ccore::text_of_rails(rails); }

struct LinkPair {
  LinkPair() : LinkPair(device(), device()) {}
  LinkPair(const ccore::RdmaRails& a, const ccore::RdmaRails& b)
      : one(std::make_unique<ccore::RdmaLink>(a, sessions(0).connecting, kOwn, kPeer)),
        other(std::make_unique<ccore::RdmaLink>(b, sessions(0).accepting, kOwn, kPeer)) {
    const ccore::RdmaEndpoint of_one = one->endpoint();
    one->connect(other->endpoint());
    other->connect(of_one);
  }
  std::unique_ptr<ccore::RdmaLink> one;
  std::unique_ptr<ccore::RdmaLink> other;
};

std::byte byte_at(uint64_t position) { return static_cast<std::byte>((position * 2654435761U) >> 7 & 0xff); }

// Memory from which a device sends without a copy.
class Source {
 public:
  Source(const ccore::RdmaRails& rails, size_t size) : data(size), registered_(rails, data.data(), data.size()) {}
  std::vector<std::byte> data;

 private:
  ccore::RegisteredSource registered_;
};

// Random sizes, in both directions, taken by copy or in place; one direction from registered memory.
void bytes_come_in_order(int sizes, const ccore::RdmaRails& a = device(), const ccore::RdmaRails& b = device()) {
  constexpr size_t kMost = 80000;
  std::mt19937_64 random(34);
  Source source(a, kMost);
  std::vector<std::byte> plain(kMost);
  LinkPair pair(a, b);
  struct Way {
    ccore::Link* from;
    ccore::Link* to;
    std::byte* block;  // of bytes that are offered until they are taken
    size_t size = 0;
    size_t taken = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
  };
  std::array<Way, 2> ways = {Way{pair.one.get(), pair.other.get(), source.data.data()},
                             Way{pair.other.get(), pair.one.get(), plain.data()}};
  std::vector<std::byte> memory(2 * kMost);
  const auto offer = [&](Way* way) {
    const size_t most = 1 + random() % (way->size - way->taken);
    const size_t count =
        way->from->try_send(way->block + way->taken, random() % 4 == 0 ? most : way->size - way->taken);
    way->taken += count;
    way->sent += count;
    // The caller may do what it likes with bytes that were taken.
    std::memset(way->block, 0xee, way->taken);
  };
  const auto take = [&](Way* way) {
    const size_t most = 1 + random() % memory.size();
    if (random() % 2 == 0) {
      const size_t count = way->to->try_recv(memory.data(), most);
      for (size_t i = 0; i < count; ++i) EXPECT(memory[i] == byte_at(way->received + i), "at ", way->received + i);
      way->received += count;
    } else {
      const ccore::Bytes ready = way->to->peek(1);
      const size_t count = std::min(ready.size, most);
      for (size_t i = 0; i < count; ++i) EXPECT(ready.data[i] == byte_at(way->received + i), "at ", way->received + i);
      way->to->consume(count);
      way->received += count;
    }
  };
  for (int i = 0; i < sizes;) {
    Way& way = ways[random() % 2];
    if (way.taken == way.size) {
      way.size = random() % 16 == 0 ? 1 + random() % kMost : 1 + random() % 300;
      way.taken = 0;
      for (size_t k = 0; k < way.size; ++k) way.block[k] = byte_at(way.sent + k);
      ++i;
    }
    offer(&way);
    if (random() % 3 == 0) take(&ways[random() % 2]);
  }
  for (Way& way : ways) {
    for (int i = 0; i < 100000 && way.taken < way.size; ++i) {
      offer(&way);
      take(&way);
    }
    for (int i = 0; i < 100000 && way.received < way.sent; ++i) take(&way);
    EXPECT(way.taken == way.size && way.received == way.sent && way.sent > kFirstRing, way.received, " of ", way.sent,
           " bytes came");
  }
  EXPECT(control().receives_missed() == 0, "a write found no receive");
}

// Devices read memory later than they are asked to, and writes of several queue pairs pass each other.
void late_writes_come_in_order(int sizes) {
  VerbsFaults faults;
  faults.delayed = true;
  const Faulty faulty(faults);
  control().overtaken();
  control().sent_from_sources();
  bytes_come_in_order(sizes);
  EXPECT(control().overtaken() == 0 && control().sent_from_sources() > 1000000, "one queue pair");
  for (const int other : {4, 2}) {
    bytes_come_in_order(sizes, device(4), device(other));
    const int overtaken = control().overtaken();
    EXPECT(overtaken > 10, overtaken, " messages passed another");
  }
}

// Sends what the receiver has room for, and returns how much that is.
size_t fill(ccore::Link* link) {
  const std::vector<std::byte> data(100000);
  size_t sent = 0;
  for (int i = 0; i < 100; ++i) sent += link->try_send(data.data(), data.size());
  return sent;
}

// A ring is small until its peer waits for room in it, and stays so where no memory is left.
void rings_grow() {
  for (const bool possible : {true, false}) {
    LinkPair pair;
    EXPECT(fill(pair.one.get()) == kFirstRing, "the first ring");
    VerbsFaults faults;
    faults.registrations = possible ? 2 : 0;
    const Faulty faulty(faults);
    EXPECT(pair.other->peek(kFirstRing).size == kFirstRing, "they arrived");
    const size_t more = fill(pair.one.get());
    EXPECT(more == (possible ? kMostRing - kFirstRing : 0), more, " bytes more");
    std::vector<std::byte> got(kMostRing);
    const size_t expected = possible ? kMostRing : kFirstRing;
    pair.other->peek(expected);
    const size_t count = pair.other->try_recv(got.data(), got.size());
    EXPECT(count == expected, count, " of ", expected, " bytes");
    EXPECT(fill(pair.one.get()) > 0, "no room again");
  }
}

// A sender that no one reads is held back by credits, not by the device.
void credits_hold_a_sender_back() {
  LinkPair pair;
  const std::byte one{};
  int messages = 0;
  while (messages < 100000 && pair.one->try_send(&one, 1) == 1) ++messages;
  EXPECT(messages == 256, messages, " messages of one byte");
  std::vector<std::byte> got(1000);
  EXPECT(pair.other->try_recv(got.data(), got.size()) == 256, "they arrived");
  for (int i = 0; i < 100; ++i) pair.other->peek(1);
  EXPECT(pair.one->try_send(&one, 1) == 1, "there is credit again");
  EXPECT(control().receives_missed() == 0, "a write found no receive");
}

// The text of what is thrown.
template <typename Call>
std::string thrown(const Call& call) {
  try {
    call();
  } catch (const ccore::Error& error) {
    return error.what();
  }
  return "";
}

void every_status_is_named() {
  for (int status = 1; status < 22; ++status) {
    LinkPair pair;
    VerbsFaults faults;
    faults.fail_send = 2;
    faults.status = status;
    const Faulty faulty(faults);
    std::vector<std::byte> data(1000);
    const std::string text = thrown([&] {
      for (int i = 0; i < 100; ++i) pair.one->try_send(data.data(), data.size());
    });
    EXPECT(contains(text, kOwn + " lost the RDMA connection to " + kPeer) &&
               contains(text, "rxe0 port 1, GID 3 (127.0.0.1)") &&
               (status != 12 || contains(text, "retry counter exceeded")) && (status != 13 || contains(text, "defect")),
           status, ": ", text);
    // What had arrived before is still there.
    EXPECT(pair.other->try_recv(data.data(), data.size()) == 1000, "the first message");
  }
}

void a_registration_may_fail() {
  for (int number = 1; number <= 5; ++number) {
    VerbsFaults faults;
    faults.fail_registration = number;
    const Faulty faulty(faults);
    const std::string text = thrown([] {
      const LinkPair pair;
      const std::vector<std::byte> data(1000);
      pair.one->try_send(data.data(), data.size());
    });
    EXPECT(contains(text, "cannot register") && contains(text, "rxe0"), number, ": ", text);
    EXPECT(control().registered() == 0 && control().queue_pairs() == 0, "something is left");
  }
}

void devices_are_refused_by_name() {
  VerbsFaults faults;
  faults.iwarp = true;
  {
    const Faulty faulty(faults);
    const std::string text = thrown([] { device(); });
    EXPECT(contains(text, "siw0 is an iWARP device"), text);
  }
  faults = VerbsFaults();
  faults.no_device = true;
  {
    const Faulty faulty(faults);
    EXPECT(contains(thrown([] { device(); }), "there is no RDMA device"), "no device");
  }
  ccore::RdmaWish wish;
  wish.gid_index = 2;
  const auto open = [&] { open_device(wish); };
  EXPECT(contains(thrown(open), "CCORE_RDMA_GID_INDEX=2 is not a RoCE v2 GID"), thrown(open));
  wish.gid_index = 77;
  EXPECT(contains(thrown(open), "CCORE_RDMA_GID_INDEX=77"), thrown(open));
  wish = ccore::RdmaWish();
  wish.device = "mlx5_9";
  EXPECT(contains(thrown(open), "there is no RDMA device mlx5_9"), thrown(open));
}

void an_endpoint_that_cannot_be_is_refused() {
  ccore::RdmaLink link(device(), sessions(0).connecting, kOwn, kPeer);
  const ccore::RdmaEndpoint good = link.endpoint();
  const auto refused = [&](const auto& change) {
    ccore::RdmaEndpoint bad = good;
    change(&bad);
    return contains(thrown([&] { link.connect(bad); }), kPeer);
  };
  using Endpoint = ccore::RdmaEndpoint;
  EXPECT(refused([](Endpoint* bad) { bad->ring.bytes = 0; }), "no ring");
  EXPECT(refused([](Endpoint* bad) { bad->ring.bytes = 5000; }), "not a power of two");
  EXPECT(refused([](Endpoint* bad) { bad->ring.bytes = 1U << 31; }), "too large");
  EXPECT(refused([](Endpoint* bad) { bad->ports[0].mtu = 6; }), "MTU");
  EXPECT(refused([](Endpoint* bad) { bad->pairs[7].number = 1 << 24; }), "queue pair");
  EXPECT(refused([](Endpoint* bad) { bad->queue_pairs = 9; }), "too many queue pairs");
  EXPECT(refused([](Endpoint* bad) { bad->ports[0].link_layer = 1; }), "InfiniBand to RoCE");
  EXPECT(refused([](Endpoint* bad) { bad->rails = 0; }) && refused([](Endpoint* bad) { bad->rails = 5; }), "rails");
  EXPECT(refused([](Endpoint* bad) { bad->rails = 3, bad->queue_pairs = 3; }), "too many queue pairs on three rails");
}

void a_peer_that_ended_is_named() {
  LinkPair pair;
  pair.other.reset();
  std::vector<std::byte> data(1000);
  const std::string text = thrown([&] {
    for (int i = 0; i < 100; ++i) pair.one->try_send(data.data(), data.size());
  });
  EXPECT(contains(text, kPeer) && contains(text, "the peer is gone"), text);
}

// The text with which a link ends that only waits for data; empty if that takes too long.
std::string end_of_wait(ccore::Link* link, int64_t patience_ms = 20000) {
  const ccore::Deadline deadline = ccore::Deadline::in_ms(patience_ms);
  return thrown([&] {
    while (!deadline.passed()) {
      link->peek(1);
      ccore::relax();
    }
  });
}

// Nothing completes on a device that failed; its event ends the wait.
void a_device_that_failed_is_named() {
  LinkPair pair;
  VerbsFaults faults;
  faults.device_fatal = true;
  const Faulty faulty(faults);
  const std::string text = end_of_wait(pair.one.get());
  EXPECT(contains(text, "the device failed, after the event 'local catastrophic error of rxe0'"), text);
}

// A rank that has no write under way asks the device once a second whether its peer still answers.
void a_rank_that_waits_finds_a_dead_path() {
  for (const int queue_pairs : {1, 4}) {
    LinkPair pair(device(queue_pairs), device(queue_pairs));
    const std::string early = end_of_wait(pair.other.get(), 1200);
    EXPECT(early.empty(), "it waits while its peer answers: ", early);
    VerbsFaults faults;
    faults.dropped = "rxe0";
    const Faulty faulty(faults);
    const std::string text = end_of_wait(pair.other.get());
    EXPECT(contains(text, kOwn + " lost the RDMA connection to " + kPeer) && contains(text, "retry counter exceeded"),
           text);
  }
}

void wait_until_events_are_read() {
  const ccore::Deadline deadline = ccore::Deadline::in_ms(10000);
  while (control().events_open() > 0 && !deadline.passed()) ccore::relax();
}

// A port that comes back in time ends nothing, and one that stays down is named without any write.
void a_port_that_stays_down_is_named() {
  ccore::RdmaWish wish;
  wish.port_patience_ms = 300;
  LinkPair pair(open_device(wish), open_device(wish));
  VerbsFaults faults;
  faults.port_down = true;
  {
    const Faulty faulty(faults);
    wait_until_events_are_read();
  }
  wait_until_events_are_read();
  const std::string early = end_of_wait(pair.other.get(), 500);
  EXPECT(early.empty(), "the port came back: ", early);
  const Faulty faulty(faults);
  const std::string text = end_of_wait(pair.other.get());
  EXPECT(contains(text, kOwn + " lost the RDMA connection to " + kPeer) &&
             contains(text, ": the port has been down for ") &&
             contains(text, " s, after the event 'port error of rxe0'"),
         text);
}

// By LID in one subnet; from one to another by GID as well. The stand-in checks the address as a switch would.
void infiniband_is_addressed() {
  for (const bool subnets : {false, true}) {
    VerbsFaults faults;
    faults.infiniband = true;
    faults.other_subnet = subnets;
    const Faulty faulty(faults);
    EXPECT(contains(text_of(device()), "rxe0 port 1, GID 0 (fe80"), text_of(device()));
    bytes_come_in_order(500);
  }
}

// The two ports are where the sysfs of tests/facts/cases/rdma/two-ndr-infiniband.txt has them; the GPUs are added.
void the_port_nearest_to_the_gpu_is_taken() {
  Sysfs sysfs;
  sysfs.add("pci0000:15/0000:15:01.0/0000:18:00.0", 1, "infiniband", "mlx5_0");
  sysfs.add("pci0000:80/0000:80:01.0/0000:81:00.0", 1, "infiniband", "mlx5_10");
  sysfs.add("pci0000:15/0000:15:03.0/0000:1a:00.0", 1);
  sysfs.add("pci0000:80/0000:80:02.0/0000:82:00.0", 1);
  sysfs.add("pci0000:c0/0000:c0:01.0/0000:c1:00.0", 1);
  VerbsFaults faults;
  faults.infiniband = faults.two_devices = true;
  const Faulty faulty(faults);
  const auto taken = [&](const char* gpu, int local_rank, const char* wanted = "") {
    ccore::RdmaWish wish;
    wish.device = wanted;
    const std::string text = text_of(open_device(wish, local_rank, ccore::surroundings(sysfs.root(), gpu)));
    return text.substr(0, text.find(' '));
  };
  for (int local_rank = 0; local_rank < 4; ++local_rank) {
    const char* dealt = local_rank % 2 == 0 ? "mlx5_0" : "mlx5_10";
    EXPECT(taken("0000:1A:00.0", local_rank) == "mlx5_0", "below the first host bridge: ", local_rank);
    EXPECT(taken("00000000:82:00.0", local_rank) == "mlx5_10", "below the second: ", local_rank);
    EXPECT(taken("0000:c1:00.0", local_rank) == dealt, "equally far from both: ", local_rank);
    EXPECT(taken("", local_rank) == dealt, "no GPU: ", local_rank);
    EXPECT(taken("0000:1a:00.0", local_rank, "mlx5_10") == "mlx5_10", "as CCORE_RDMA_DEVICE says: ", local_rank);
  }
}

// The order of the two devices would give the one below.
void a_macvlan_is_told_from_the_port_below_it() {
  VerbsFaults faults;
  faults.two_devices = true;
  for (const bool macvlan : {false, true}) {
    faults.macvlan = macvlan;
    const Faulty faulty(faults);
    const std::string text = text_of(device());
    EXPECT(contains(text, macvlan ? "mlx5_10 port 1, GID 3 (127.0.0.1)" : "mlx5_0 port 1, GID 3 (127.0.0.1)"), text);
  }
}

// A port accepts no packet that is larger than its own limit.
void the_smaller_packets_count() {
  VerbsFaults faults;
  faults.mtu = 3;
  control().set(&faults);
  const ccore::RdmaRails small = device();
  control().set(nullptr);
  bytes_come_in_order(500, small, device());
}

constexpr char kBoth[] = "mlx5_0,mlx5_10";

// Both devices carry what one link sends, also from memory without a copy; with a peer of one rail, the first.
void rails_share_the_bytes_of_a_link() {
  VerbsFaults faults;
  faults.two_devices = faults.delayed = true;
  const Faulty faulty(faults);
  struct Case {
    int pairs;
    const char* other;
    int other_pairs;
  };
  for (const Case& one : {Case{1, kBoth, 1}, Case{3, kBoth, 2}, Case{2, "mlx5_0", 8}}) {
    for (const int rail : {0, 1}) control().written_by(rail);
    control().sent_from_sources();
    bytes_come_in_order(5000, device(one.pairs, kBoth), device(one.other_pairs, one.other));
    const long first = control().written_by(0);
    const long second = control().written_by(1);
    const bool both = std::string(one.other) == kBoth;
    EXPECT(first > 0 && (both ? second > first / 2 && first > second / 2 : second == 0), first, " and ", second);
    const long lent = control().sent_from_sources();
    EXPECT(lent > 1000000, lent, " bytes left without a copy");
    EXPECT(control().registered() == 0 && control().queue_pairs() == 0, "something is left");
  }
}

void a_rail_that_fails_is_named() {
  VerbsFaults faults;
  faults.two_devices = true;
  const Faulty two(faults);
  {
    LinkPair pair(device(1, kBoth), device(1, kBoth));
    faults.dropped = "mlx5_10";
    control().set(&faults);
    const std::string text = end_of_wait(pair.one.get());
    EXPECT(contains(text, kOwn + " lost the RDMA connection to " + kPeer + ", from mlx5_10 port 1") &&
               contains(text, "retry counter exceeded"),
           text);
    faults.dropped = "";
  }
  // Each of the two rings and the page of credits is registered by both.
  for (int number = 1; number <= 6; ++number) {
    faults.fail_registration = number;
    control().set(&faults);
    const std::string text = thrown([] {
      const LinkPair pair(device(1, kBoth), device(1, kBoth));
      const std::vector<std::byte> data(1000);
      pair.one->try_send(data.data(), data.size());
    });
    EXPECT(contains(text, "cannot register") && contains(text, "mlx5"), number, ": ", text);
    EXPECT(control().registered() == 0 && control().queue_pairs() == 0, "something is left");
  }
}

void lists_of_devices_are_checked() {
  const auto refused = [](int pairs, const char* list, const char* why) {
    const std::string text = thrown([&] { device(pairs, list); });
    return contains(text, std::string("CCORE_RDMA_DEVICE=") + list) && contains(text, why);
  };
  EXPECT(refused(1, "mlx5_0,", "a name is missing"), "an empty name");
  EXPECT(refused(1, "mlx5_0,mlx5_10,mlx5_0", "mlx5_0 and mlx5_0 may be one port; expected each port once"), "twice");
  EXPECT(refused(1, "mlx5_0,mlx5_0:1", "mlx5_0 and mlx5_0:1 may be one port"), "once with its port");
  EXPECT(refused(1, "mlx5_0:1,mlx5_0", "mlx5_0:1 and mlx5_0 may be one port"), "once without its port");
  EXPECT(refused(1, "mlx5_0:2,mlx5_0:2", "mlx5_0:2 and mlx5_0:2 may be one port"), "twice with its port");
  EXPECT(refused(1, "a,b,c,d,e", "at most 4 devices"), "five");
  EXPECT(refused(5, kBoth, "10 queue pairs per peer; expected at most 8"), "too many queue pairs");
  EXPECT(contains(thrown([] { device(1, "mlx5_0:7"); }), "a port from 1 to 4"), "a port");
}

struct Environment {
  explicit Environment(const char* net, const char* devices = nullptr) {
    setenv("CCORE_NET", net, 1);
    if (devices) setenv("CCORE_RDMA_DEVICE", devices, 1);
  }
  ~Environment() {
    unsetenv("CCORE_NET");
    unsetenv("CCORE_RDMA_DEVICE");
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
};

std::string transport_of(cc_comm* comm, int rank) {
  cc_peer_info info{};
  info.size = sizeof info;
  EXPECT(cc_comm_peer_info(comm, rank, &info) == CC_SUCCESS, cc_last_error(nullptr));
  return info.transport;
}

void sum(int rank, int nranks, cc_comm* comm, const char* transport) {
  EXPECT(transport_of(comm, (rank + 1) % nranks) == transport, transport_of(comm, (rank + 1) % nranks));
  std::vector<int32_t> data(300001, rank);
  EXPECT(cc_all_reduce(data.data(), data.data(), data.size(), CC_INT32, CC_SUM, comm, nullptr) == CC_SUCCESS,
         cc_last_error(nullptr));
  EXPECT(data == std::vector<int32_t>(data.size(), nranks * (nranks - 1) / 2), "the sum");
}

void ranks_fall_back() {
  VerbsFaults faults;
  faults.unreachable = true;
  const Faulty faulty(faults);
  {
    const Environment automatic("auto");
    run_ranks(3, layout_named("tcp"), [](int rank, cc_comm* comm) { sum(rank, 3, comm, "tcp"); });
  }
  const Environment demanded("rdma");
  cc_unique_id id;
  EXPECT(cc_get_unique_id(&id) == CC_SUCCESS, cc_last_error(nullptr));
  run_threads(2, [&](int rank) {
    cc_config config{};
    config.size = sizeof config;
    config.transport = CC_TRANSPORT_TCP;
    cc_comm* comm = nullptr;
    const cc_result result = cc_comm_init_rank(&comm, 2, &id, rank, &config);
    const std::string text = cc_last_error(nullptr);
    EXPECT(result == CC_ERROR_INVALID_USAGE && contains(text, "CCORE_NET=rdma") && contains(text, "finds no way"),
           text);
  });
}

void ranks_sum_over_two_rails() {
  VerbsFaults faults;
  faults.two_devices = true;
  const Faulty faulty(faults);
  const Environment both("rdma", kBoth);
  for (const int rail : {0, 1}) control().written_by(rail);
  run_ranks(3, layout_named("tcp"), [](int rank, cc_comm* comm) { sum(rank, 3, comm, "rdma"); });
  const long first = control().written_by(0);
  const long second = control().written_by(1);
  EXPECT(second > first / 2 && first > second / 2, first, " and ", second, " bytes");
}

void ranks_sum_over_it() {
  const Environment demanded("rdma");
  for (const bool refused : {false, true}) {
    VerbsFaults faults;
    faults.refuse_inline = refused;
    faults.mtu = 3;
    const Faulty faulty(faults);
    run_ranks(3, layout_named("tcp"), [](int rank, cc_comm* comm) { sum(rank, 3, comm, "rdma"); });
  }
}

// Registered memory leaves without a copy, other memory with one.
void registered_memory_is_not_copied() {
  const Environment demanded("rdma");
  constexpr size_t kBytes = size_t{4} << 20;
  VerbsFaults faults;
  faults.delayed = true;
  const Faulty faulty(faults);
  Layout layout = layout_named("tcp");
  layout.timeout_ms = kPatienceMs;
  run_ranks(2, layout, [&](int rank, cc_comm* comm) {
    void* memory = nullptr;
    cc_mem_handle handle = 0;
    const auto done = [](cc_result result) { EXPECT(result == CC_SUCCESS, cc_last_error(nullptr)); };
    done(cc_mem_alloc(&memory, kBytes));
    auto* values = static_cast<int32_t*>(memory);
    const auto sum = [&](bool without_copies) {
      std::fill_n(values, kBytes / 4, rank + 1);
      done(cc_barrier(comm, nullptr));
      if (rank == 0) control().sent_from_sources();
      if (rank == 0) control().sent_from_rings();
      done(cc_barrier(comm, nullptr));
      done(cc_all_reduce(values, values, kBytes / 4, CC_INT32, CC_SUM, comm, nullptr));
      EXPECT(std::all_of(values, values + kBytes / 4, [](int32_t value) { return value == 3; }), "the sum");
      done(cc_barrier(comm, nullptr));
      if (rank == 0) {
        const long lent = control().sent_from_sources();
        const long copied = control().sent_from_rings();
        const auto all = static_cast<long>(2 * kBytes);
        EXPECT(lent + copied >= all - 1000 && (without_copies ? copied < all / 50 : lent == 0), lent,
               " bytes from the source, ", copied, " copied");
      }
      done(cc_barrier(comm, nullptr));
    };
    sum(false);
    done(cc_mem_register(comm, memory, kBytes, &handle, nullptr, nullptr));
    sum(true);
    done(cc_mem_deregister(comm, handle, nullptr));
    sum(false);
    done(cc_barrier(comm, nullptr));
    VerbsFaults full = faults;
    full.registrations = 0;
    control().set(&full);
    done(cc_mem_register(comm, memory, kBytes, &handle, nullptr, nullptr));
    sum(false);
    done(cc_mem_deregister(comm, handle, nullptr));
    done(cc_mem_free(memory));
  });
}

void a_lost_port_is_named() {
  const Environment demanded("rdma");
  Meeting meeting(2);
  run_ranks(2, layout_named("tcp"), [&](int rank, cc_comm* comm) {
    sum(rank, 2, comm, "rdma");
    meeting.wait();
    if (rank == 0) {
      VerbsFaults faults;
      faults.port_down = true;
      control().set(&faults);
      wait_until_events_are_read();
    }
    meeting.wait();
    std::vector<float> data(100000);
    const cc_result result = cc_all_reduce(data.data(), data.data(), data.size(), CC_FLOAT32, CC_SUM, comm, nullptr);
    const std::string text = last_error(comm);
    EXPECT(result == CC_ERROR_REMOTE && contains(text, "rank ") && contains(text, "rxe0 port 1") &&
               contains(text, "retry counter exceeded") && contains(text, "after the event 'port error of rxe0'"),
           text);
  });
  control().set(nullptr);
}

// A child, such as one that loads data, ends its copy of the communicator and leaves the parent's connections alone.
void a_child_leaves_the_connections_alone() {
  const Environment demanded("rdma");
  constexpr size_t kBytes = size_t{1} << 20;
  Meeting meeting(2);
  run_ranks(2, layout_named("tcp"), [&](int rank, cc_comm* comm) {
    void* memory = nullptr;
    cc_mem_handle handle = 0;
    EXPECT(cc_mem_alloc(&memory, kBytes) == CC_SUCCESS, cc_last_error(nullptr));
    EXPECT(cc_mem_register(comm, memory, kBytes, &handle, nullptr, nullptr) == CC_SUCCESS, last_error(comm));
    sum(rank, 2, comm, "rdma");
    meeting.wait();
    std::string wrong;
    if (rank == 0) {
      if (control().fork_safe() != 1) wrong = "ibv_fork_init was not called before the first registration";
      const pid_t child = fork();
      if (child == 0) {
        const int regions = control().registered();
        const int pairs = control().queue_pairs();
        const bool ended = cc_comm_destroy(comm) == CC_SUCCESS;
        const bool alone = control().registered() == regions && control().queue_pairs() == pairs;
        _exit(ended && alone && pairs == 2 ? 0 : 1);
      }
      const ccore::Deadline deadline = ccore::Deadline::in_ms(20000);
      int status = 0;
      pid_t ended = 0;
      while ((ended = waitpid(child, &status, WNOHANG)) == 0 && !deadline.passed()) ccore::relax();
      if (ended == 0) kill(child, SIGKILL);
      if (ended == 0) wrong = "the child did not end";
      if (ended != 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) wrong = "it changed what is its parent's";
    }
    meeting.wait();
    EXPECT(wrong.empty(), wrong);
    sum(rank, 2, comm, "rdma");
    EXPECT(cc_mem_deregister(comm, handle, nullptr) == CC_SUCCESS, last_error(comm));
    EXPECT(cc_mem_free(memory) == CC_SUCCESS, cc_last_error(nullptr));
  });
}

// A timeout that ends before the connection is given up names the event too.
void a_timeout_names_the_event() {
  const Environment demanded("rdma");
  Meeting meeting(2);
  run_ranks(2, layout_named("tcp"), [&](int rank, cc_comm* comm) {
    sum(rank, 2, comm, "rdma");
    meeting.wait();
    if (rank == 0) {
      VerbsFaults faults;
      faults.port_down = true;
      control().set(&faults);
      wait_until_events_are_read();
      cc_op_options options{sizeof options, 300, 0, 0, nullptr};
      float data = 0;
      const cc_result result = cc_recv(&data, 1, CC_FLOAT32, 1, comm, &options);
      const std::string text = last_error(comm);
      EXPECT(result == CC_ERROR_TIMEOUT && contains(text, "it waits for data from rank 1") &&
                 contains(text, "after the event 'port error of rxe0'"),
             text);
      control().set(nullptr);
    }
    meeting.wait();
  });
}

}  // namespace

void rdma() {
  setenv("CCORE_IBVERBS_LIBRARY", CCORE_STAND_IN_VERBS, 1);
  bytes_come_in_order(100000);
  late_writes_come_in_order(20000);
  rings_grow();
  credits_hold_a_sender_back();
  every_status_is_named();
  a_registration_may_fail();
  a_peer_that_ended_is_named();
  a_device_that_failed_is_named();
  a_rank_that_waits_finds_a_dead_path();
  a_port_that_stays_down_is_named();
  infiniband_is_addressed();
  the_port_nearest_to_the_gpu_is_taken();
  a_macvlan_is_told_from_the_port_below_it();
  the_smaller_packets_count();
  devices_are_refused_by_name();
  an_endpoint_that_cannot_be_is_refused();
  {
    VerbsFaults faults;
    faults.refuse_inline = true;
    const Faulty faulty(faults);
    bytes_come_in_order(2000);
  }
  rails_share_the_bytes_of_a_link();
  a_rail_that_fails_is_named();
  lists_of_devices_are_checked();
  ranks_sum_over_it();
  ranks_sum_over_two_rails();
  ranks_fall_back();
  registered_memory_is_not_copied();
  a_lost_port_is_named();
  a_timeout_names_the_event();
  a_child_leaves_the_connections_alone();
  EXPECT(control().registered() == 0 && control().queue_pairs() == 0, "something is left");
  EXPECT(control().receives_missed() == 0, "a write found no receive");
  unsetenv("CCORE_IBVERBS_LIBRARY");
}

// A job of 64 ranks on 8 nodes: what one rank pins at the start, and after all have sent to all.
void rdma_64() {
  setenv("CCORE_IBVERBS_LIBRARY", CCORE_STAND_IN_VERBS, 1);
  const Environment demanded("rdma");
  constexpr int kRanks = 64;
  constexpr size_t kBlock = 32 * 1024;
  constexpr long kLimit = 64L << 20;
  control().most_pinned();
  Meeting meeting(kRanks);
  long pinned = 0;
  cc_unique_id id;
  EXPECT(cc_get_unique_id(&id) == CC_SUCCESS, cc_last_error(nullptr));
  run_threads(kRanks, [&](int rank) {
    const std::string node = std::to_string(rank / 8);
    cc_config config{};
    config.size = sizeof config;
    config.timeout_ms = kPatienceMs;
    config.init_timeout_ms = kPatienceMs;
    config.node_id = node.c_str();
    cc_comm* comm = nullptr;
    EXPECT(cc_comm_init_rank(&comm, kRanks, &id, rank, &config) == CC_SUCCESS, "rank ", rank, ": ",
           cc_last_error(nullptr));
    EXPECT(transport_of(comm, (rank + 8) % kRanks) == "rdma", transport_of(comm, (rank + 8) % kRanks));
    const auto report = [&](const char* when, long most) {
      meeting.wait();
      if (rank == 0) pinned = control().most_pinned();
      meeting.wait();
      if (rank == 0) std::printf("64 ranks on 8 nodes: %ld KiB pinned per rank %s\n", pinned / 1024, when);
      EXPECT(pinned > 0 && pinned <= most, when, ": ", pinned, " bytes");
    };
    report("at the start", 56L * (16 + 16 + 4) * 1024);
    sum(rank, kRanks, comm, transport_of(comm, (rank + 1) % kRanks).c_str());
    report("after all_reduce of 1.2 MB", kLimit);
    std::vector<unsigned char> send(kRanks * kBlock, static_cast<unsigned char>(rank));
    std::vector<unsigned char> recv(send.size());
    EXPECT(cc_all_to_all(send.data(), recv.data(), kBlock, CC_UINT8, comm, nullptr) == CC_SUCCESS, last_error(comm));
    for (size_t i = 0; i < recv.size(); ++i) EXPECT(recv[i] == i / kBlock, "byte ", i);
    report("after all_to_all", kLimit);
    EXPECT(cc_comm_destroy(comm) == CC_SUCCESS, cc_last_error(nullptr));
  });
  EXPECT(control().registered() == 0 && control().queue_pairs() == 0, "something is left");
  unsetenv("CCORE_IBVERBS_LIBRARY");
}

}  // namespace test
