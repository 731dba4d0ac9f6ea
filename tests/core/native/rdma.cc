// The verbs transport over a stand-in for libibverbs: the link's contract, every kind of failure, and what is left.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
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
constexpr size_t kRing = 16 * 1024;

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

std::shared_ptr<ccore::RdmaDevice> device() {
  return ccore::RdmaDevice::open(ccore::RdmaWish(), ccore::resolve("127.0.0.1", 0), 0);
}

struct LinkPair {
  LinkPair() : LinkPair(device(), device()) {}
  LinkPair(std::shared_ptr<ccore::RdmaDevice> a, std::shared_ptr<ccore::RdmaDevice> b)
      : one(std::make_unique<ccore::RdmaLink>(a, kRing, sessions(0).connecting, kOwn, kPeer)),
        other(std::make_unique<ccore::RdmaLink>(b, kRing, sessions(0).accepting, kOwn, kPeer)) {
    one->connect(other->endpoint());
    other->connect(one->endpoint());
  }
  std::unique_ptr<ccore::RdmaLink> one;
  std::unique_ptr<ccore::RdmaLink> other;
};

std::byte byte_at(uint64_t position) { return static_cast<std::byte>((position * 2654435761U) >> 7 & 0xff); }

// Random sizes, in both directions, taken by copy or in place.
void bytes_come_in_order(int sizes, LinkPair pair = LinkPair()) {
  std::mt19937_64 random(34);
  struct Way {
    ccore::Link* from;
    ccore::Link* to;
    uint64_t sent = 0;
    uint64_t received = 0;
  };
  std::array<Way, 2> ways = {Way{pair.one.get(), pair.other.get()}, Way{pair.other.get(), pair.one.get()}};
  std::vector<std::byte> memory(2 * kRing);
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
    EXPECT(way->received <= way->sent, "more came than was sent");
  };
  for (int i = 0; i < sizes; ++i) {
    Way& way = ways[random() % 2];
    const size_t size = random() % 4 == 0 ? 1 + random() % memory.size() : 1 + random() % 300;
    for (size_t k = 0; k < size; ++k) memory[k] = byte_at(way.sent + k);
    way.sent += way.from->try_send(memory.data(), size);
    if (random() % 3 == 0) take(&ways[random() % 2]);
  }
  for (Way& way : ways) {
    for (int i = 0; i < 10000 && way.received < way.sent; ++i) take(&way);
    EXPECT(way.received == way.sent && way.sent > kRing, way.received, " of ", way.sent, " bytes came");
  }
  EXPECT(control().receives_missed() == 0, "a write found no receive");
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
  for (int number = 1; number <= 6; ++number) {
    VerbsFaults faults;
    faults.fail_registration = number;
    const Faulty faulty(faults);
    const std::string text = thrown([] { LinkPair pair; });
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
  const auto open = [&] { ccore::RdmaDevice::open(wish, ccore::resolve("127.0.0.1", 0), 0); };
  EXPECT(contains(thrown(open), "CCORE_RDMA_GID_INDEX=2 is not a RoCE v2 GID"), thrown(open));
  wish.gid_index = 77;
  EXPECT(contains(thrown(open), "CCORE_RDMA_GID_INDEX=77"), thrown(open));
  wish = ccore::RdmaWish();
  wish.device = "mlx5_9";
  EXPECT(contains(thrown(open), "there is no RDMA device mlx5_9"), thrown(open));
}

void an_endpoint_that_cannot_be_is_refused() {
  ccore::RdmaLink link(device(), kRing, sessions(0).connecting, kOwn, kPeer);
  const ccore::RdmaEndpoint good = link.endpoint();
  const auto refused = [&](const auto& change) {
    ccore::RdmaEndpoint bad = good;
    change(&bad);
    return contains(thrown([&] { link.connect(bad); }), kPeer);
  };
  using Endpoint = ccore::RdmaEndpoint;
  EXPECT(refused([](Endpoint* bad) { bad->ring_bytes = 0; }), "no ring");
  EXPECT(refused([](Endpoint* bad) { bad->ring_bytes = 5000; }), "not a power of two");
  EXPECT(refused([](Endpoint* bad) { bad->ring_bytes = UINT64_C(1) << 40; }), "too large");
  EXPECT(refused([](Endpoint* bad) { bad->mtu = 6; }), "MTU");
  EXPECT(refused([](Endpoint* bad) { bad->qp_num = 1 << 24; }), "queue pair");
  EXPECT(refused([](Endpoint* bad) { bad->link_layer = 1; }), "InfiniBand to RoCE");
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

// Nothing completes on a device that failed; its event ends the wait.
void a_device_that_failed_is_named() {
  LinkPair pair;
  VerbsFaults faults;
  faults.device_fatal = true;
  const Faulty faulty(faults);
  const ccore::Deadline deadline = ccore::Deadline::in_ms(10000);
  const std::string text = thrown([&] {
    while (!deadline.passed()) pair.one->peek(1);
  });
  EXPECT(contains(text, "the device failed, after the event 'local catastrophic error of rxe0'"), text);
}

// By LID in one subnet; from one to another by GID as well. The stand-in checks the address as a switch would.
void infiniband_is_addressed() {
  for (const bool subnets : {false, true}) {
    VerbsFaults faults;
    faults.infiniband = true;
    faults.other_subnet = subnets;
    const Faulty faulty(faults);
    EXPECT(contains(device()->text(), "rxe0 port 1, GID 0 (fe80"), device()->text());
    bytes_come_in_order(500);
  }
}

// A port accepts no packet that is larger than its own limit.
void the_smaller_packets_count() {
  VerbsFaults faults;
  faults.mtu = 3;
  control().set(&faults);
  const std::shared_ptr<ccore::RdmaDevice> small = device();
  control().set(nullptr);
  bytes_come_in_order(500, LinkPair(small, device()));
}

struct Environment {
  explicit Environment(const char* net) { setenv("CCORE_NET", net, 1); }
  ~Environment() { unsetenv("CCORE_NET"); }
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
      const ccore::Deadline deadline = ccore::Deadline::in_ms(10000);
      while (control().events_open() > 0 && !deadline.passed()) ccore::relax();
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

}  // namespace

void rdma() {
  setenv("CCORE_IBVERBS_LIBRARY", CCORE_STAND_IN_VERBS, 1);
  bytes_come_in_order(20000);
  credits_hold_a_sender_back();
  every_status_is_named();
  a_registration_may_fail();
  a_peer_that_ended_is_named();
  a_device_that_failed_is_named();
  infiniband_is_addressed();
  the_smaller_packets_count();
  devices_are_refused_by_name();
  an_endpoint_that_cannot_be_is_refused();
  {
    VerbsFaults faults;
    faults.refuse_inline = true;
    const Faulty faulty(faults);
    bytes_come_in_order(2000);
  }
  ranks_sum_over_it();
  ranks_fall_back();
  a_lost_port_is_named();
  EXPECT(control().registered() == 0 && control().queue_pairs() == 0, "something is left");
  EXPECT(control().receives_missed() == 0, "a write found no receive");
  unsetenv("CCORE_IBVERBS_LIBRARY");
}

}  // namespace test
