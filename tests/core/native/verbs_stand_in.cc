// A small libibverbs among the threads of one process, for tests: a RoCE device or two, reliable queue pairs, writes with
// immediate. It checks every key and address as a device would, and fails on demand.
#include <sys/eventfd.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "transport/rdma/verbs_abi.h"
#include "verbs_stand_in.h"

namespace ibv = ccore::ibv;

namespace {

struct Completions : ibv::Cq {
  std::deque<ibv::Wc> queue;
  bool armed = false;
};

struct Delayed {
  ibv::SendWr work;
  ibv::Sge piece;
  std::string inlined;
  long order;
};

struct Pair : ibv::Qp {
  std::deque<Delayed> delayed;
  uint32_t peer = 0;
  uint32_t receives = 0;
  uint32_t most_inline = 0;
  uint8_t retries = 0;
  int packet = 0;  // IBV_MTU_*
};

struct Open : ibv::Context {
  std::deque<ibv::AsyncEvent> events;
  uint8_t subnet = 1;
  long pinned = 0;
};

constexpr uint16_t kLid = 23;
// What ends later than any test: Soft-RoCE retries for ever where 7 retries are set.
constexpr int kNever = -1;
constexpr int kRemoteInvalid = 9;  // IBV_WC_REM_INV_REQ_ERR, for a packet that is larger than agreed

std::mutex mutex;  // guards all of it, memory that is written too
test::VerbsFaults faults;
using PairName = std::pair<const ibv::Device*, uint32_t>;  // each device numbers its own
std::map<PairName, Pair*> pairs;
std::map<const ibv::Device*, uint32_t> pair_numbers;
std::map<uint32_t, ibv::Mr*> regions;
std::map<uint32_t, int> rights;
std::set<Open*> contexts;
ibv::Device device_named(const char* name, ibv::TransportType type) {
  ibv::Device made{};
  std::strncpy(made.name, name, sizeof made.name - 1);
  made.transport_type = type;
  return made;
}
ibv::Device roce = device_named("rxe0", ibv::kTransportInfiniband);
ibv::Device iwarp = device_named("siw0", ibv::kTransportIwarp);
ibv::Device mlx5[2] = {device_named("mlx5_0", ibv::kTransportInfiniband),
                       device_named("mlx5_10", ibv::kTransportInfiniband)};
uint32_t next_number = 1;
uint8_t next_subnet = 2;
int missed = 0;
long most_pinned = 0;
long from_sources = 0;
long from_rings = 0;
long written[2] = {};
int overtaken = 0;
long next_order = 0;
long delayed_works = 0;  // of all queue pairs
std::minstd_rand chance(34);
int events_open = 0;
bool fork_safe = false;

constexpr int kEventGidChange = 18;

// InfiniBand: one, of the subnet and the port. RoCE: as Linux fills a table, link-local and IPv4, each by v1 and v2.
ibv::Gid gid_of(const Open& context, uint32_t index) {
  ibv::Gid gid{};
  if (faults.infiniband || index < 2) {
    gid.raw[0] = 0xfe;
    gid.raw[1] = 0x80;
    if (faults.infiniband) gid.raw[7] = context.subnet;
    gid.raw[15] = 1;
  } else {
    const uint8_t address[6] = {0xff, 0xff, 127, 0, 0, 1};
    std::memcpy(gid.raw + 10, address, sizeof address);
  }
  return gid;
}

void signal(int fd) {
  const uint64_t one = 1;
  static_cast<void>(!write(fd, &one, sizeof one));
}

void complete(ibv::Cq* cq, const ibv::Wc& completion) {
  auto* to = static_cast<Completions*>(cq);
  to->queue.push_back(completion);
  if (!to->armed) return;
  to->armed = false;
  signal(to->channel->fd);
}

Pair* peer_of(const Pair& pair) {
  const auto found = pairs.find(PairName(pair.context->device, pair.peer));
  return found == pairs.end() ? nullptr : found->second;
}

// As the device of that queue pair has registered it.
ibv::Mr* region_of(const Pair& pair, uint32_t key, uint64_t address, uint64_t length) {
  const auto found = regions.find(key);
  if (found == regions.end() || found->second->pd != pair.pd) return nullptr;
  const auto begin = reinterpret_cast<uint64_t>(found->second->addr);
  return address >= begin && address + length <= begin + found->second->length ? found->second : nullptr;
}

// The status that a device would report.
int carry_out(Pair* from, const ibv::SendWr& work) {
  if (faults.fail_send > 0 && --faults.fail_send == 0) return faults.status;
  if (faults.device_fatal) return kNever;
  const int unanswered = from->retries == 7 ? kNever : static_cast<int>(ibv::kWcRetriesExceeded);
  const ibv::Device* device = from->context->device;
  if (faults.port_down || std::strcmp(faults.dropped, device->name) == 0) return unanswered;
  Pair* to = peer_of(*from);
  if (!to) return unanswered;
  if (to->state != ibv::kQpReadyToReceive && to->state != ibv::kQpReadyToSend) return unanswered;
  if (from->packet > to->packet) return kRemoteInvalid;
  uint32_t length = 0;
  if (work.num_sge == 1) {
    const ibv::Sge& piece = work.sg_list[0];
    length = piece.length;
    const bool inlined = (work.send_flags & ibv::kSendInline) != 0;
    if (!inlined && !region_of(*from, piece.lkey, piece.addr, length)) return 4;  // IBV_WC_LOC_PROT_ERR
    if (!inlined) (rights[piece.lkey] == 0 ? from_sources : from_rings) += length;
    if (!region_of(*to, work.wr.rdma.rkey, work.wr.rdma.remote_addr, length) ||
        (rights[work.wr.rdma.rkey] & ibv::kAccessRemoteWrite) == 0) {
      return ibv::kWcRemoteAccess;
    }
  }
  const bool immediate = work.opcode == ibv::kWriteWithImmediate;
  if (immediate && to->receives == 0) {
    ++missed;
    return ibv::kWcReceiverNotReady;
  }
  if (length > 0) {
    std::memcpy(reinterpret_cast<void*>(work.wr.rdma.remote_addr), reinterpret_cast<const void*>(work.sg_list[0].addr),
                length);
    if (device == &mlx5[0] || device == &mlx5[1]) written[device - mlx5] += length;
  }
  if (!immediate) return 0;
  --to->receives;
  ibv::Wc arrived{};
  arrived.opcode = ibv::kWcReceive + 1;  // IBV_WC_RECV_RDMA_WITH_IMM
  arrived.byte_len = length;
  arrived.imm_data = work.imm_data;
  arrived.qp_num = to->qp_num;
  complete(to->recv_cq, arrived);
  return 0;
}

void end(Pair* pair, const ibv::SendWr& work) {
  ibv::Wc done{};
  done.wr_id = work.wr_id;
  done.opcode = 1;  // IBV_WC_RDMA_WRITE
  done.qp_num = pair->qp_num;
  done.status = pair->state == ibv::kQpError ? static_cast<int>(ibv::kWcFlushed) : carry_out(pair, work);
  if (done.status == kNever) return;
  if (done.status != 0) pair->state = ibv::kQpError;
  if (done.status != 0 || (work.send_flags & ibv::kSendSignaled) != 0) complete(pair->send_cq, done);
}

// The memory is read now, as a device reads it when it comes to it.
void end_first(Pair* pair) {
  Delayed first = std::move(pair->delayed.front());
  pair->delayed.pop_front();
  --delayed_works;
  if (!first.inlined.empty()) first.piece.addr = reinterpret_cast<uint64_t>(first.inlined.data());
  first.work.sg_list = &first.piece;
  for (const auto& [number, other] : pairs) {
    const bool same_way = other != pair && other->send_cq == pair->send_cq && !other->delayed.empty();
    if (same_way && other->delayed.front().order < first.order) ++overtaken;
  }
  end(pair, first.work);
}

void go_on(bool all) {
  if (delayed_works == 0) return;
  for (const auto& [number, pair] : pairs) {
    while (!pair->delayed.empty() && (all || chance() % 3 == 0)) end_first(pair);
  }
}

int post_send(ibv::Qp* qp, ibv::SendWr* work, ibv::SendWr** bad) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto* pair = static_cast<Pair*>(qp);
  for (; work; work = work->next) {
    const bool inlined = (work->send_flags & ibv::kSendInline) != 0 && work->num_sge == 1;
    if (inlined && work->sg_list[0].length > pair->most_inline) {
      *bad = work;
      return EINVAL;
    }
    if (!faults.delayed && pair->delayed.empty()) {
      end(pair, *work);
      continue;
    }
    Delayed delayed{*work, {}, {}, next_order++};
    if (work->num_sge == 1) delayed.piece = work->sg_list[0];
    if (inlined) {
      delayed.inlined.assign(reinterpret_cast<const char*>(delayed.piece.addr), delayed.piece.length);
    }
    pair->delayed.push_back(std::move(delayed));
    ++delayed_works;
    // A thread that has armed a queue may sleep, and then only this one can make the device go on.
    const Pair* peer = peer_of(*pair);
    const bool awaited = peer && static_cast<Completions*>(peer->recv_cq)->armed;
    if (awaited || static_cast<Completions*>(pair->send_cq)->armed) go_on(true);
  }
  return 0;
}

int post_recv(ibv::Qp* qp, ibv::RecvWr* work, ibv::RecvWr**) {
  const std::lock_guard<std::mutex> lock(mutex);
  for (; work; work = work->next) ++static_cast<Pair*>(qp)->receives;
  return 0;
}

int poll_cq(ibv::Cq* cq, int most, ibv::Wc* completions) {
  const std::lock_guard<std::mutex> lock(mutex);
  go_on(false);
  auto& queue = static_cast<Completions*>(cq)->queue;
  int count = 0;
  for (; count < most && !queue.empty(); ++count) {
    completions[count] = queue.front();
    queue.pop_front();
  }
  return count;
}

int req_notify_cq(ibv::Cq* cq, int) {
  const std::lock_guard<std::mutex> lock(mutex);
  static_cast<Completions*>(cq)->armed = true;
  go_on(true);  // the thread may sleep after this, and a device goes on meanwhile
  return 0;
}

void report(int type) {
  for (Open* context : contexts) {
    ibv::AsyncEvent event{};
    event.element.port_num = 1;
    event.event_type = type;
    context->events.push_back(event);
    ++events_open;
    signal(context->async_fd);
  }
}

void set_faults(const test::VerbsFaults* wanted) {
  const std::lock_guard<std::mutex> lock(mutex);
  const test::VerbsFaults before = faults;
  faults = wanted ? *wanted : test::VerbsFaults();
  if (faults.port_down && !before.port_down) {
    report(ibv::kEventPortError);
    report(kEventGidChange);  // as Linux does
  }
  if (!faults.port_down && before.port_down) report(ibv::kEventPortActive);
  if (faults.device_fatal && !before.device_fatal) report(ibv::kEventDeviceFatal);
}

// Whether a switch would bring packets with this address to the peer, and an answer back.
bool leads(const Pair& from, const Pair& to, const ibv::AhAttr& address) {
  const auto& here = *static_cast<Open*>(from.context);
  const auto& there = *static_cast<Open*>(to.context);
  const bool routed = !faults.infiniband || here.subnet != there.subnet;
  if (faults.infiniband && address.dlid != kLid) return false;
  if ((address.is_global != 0) != routed || address.port_num != 1) return false;
  if (!routed) return true;
  const ibv::Gid gid = gid_of(there, address.grh.sgid_index);
  return address.grh.hop_limit > 1 && std::memcmp(&gid, &address.grh.dgid, sizeof gid) == 0;
}

template <typename Call>
int counted(const Call& call) {
  const std::lock_guard<std::mutex> lock(mutex);
  return static_cast<int>(call());
}

template <typename Number>
Number taken(Number* number) {
  const std::lock_guard<std::mutex> lock(mutex);
  return std::exchange(*number, 0);
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED const test::VerbsControl stand_in_control = {set_faults,
                                                      [] { return counted([] { return regions.size(); }); },
                                                      [] { return counted([] { return pairs.size(); }); },
                                                      [] { return counted([] { return missed; }); },
                                                      [] { return counted([] { return events_open; }); },
                                                      [] { return taken(&most_pinned); },
                                                      [] { return taken(&from_sources); },
                                                      [] { return taken(&from_rings); },
                                                      [] { return taken(&overtaken); },
                                                      [](int device) { return taken(&written[device]); },
                                                      [] { return counted([] { return fork_safe; }); }};

// As rdma-core on kernels that do not copy pinned pages for a child: too late once something is registered.
EXPORTED int ibv_fork_init() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (next_number > 1 && !fork_safe) return EINVAL;
  fork_safe = true;
  return 0;
}
EXPORTED ibv::Device** ibv_get_device_list(int* count) {
  const std::lock_guard<std::mutex> lock(mutex);
  *count = faults.no_device ? 0 : 1;
  if (faults.two_devices) {
    *count = 2;
    return new ibv::Device*[3]{&mlx5[0], &mlx5[1], nullptr};
  }
  return new ibv::Device*[2]{faults.iwarp ? &iwarp : &roce, nullptr};
}
EXPORTED void ibv_free_device_list(ibv::Device** list) { delete[] list; }
EXPORTED ibv::Context* ibv_open_device(ibv::Device* opened) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto* context = new Open();
  context->device = opened;
  context->ops.poll_cq = poll_cq;
  context->ops.req_notify_cq = req_notify_cq;
  context->ops.post_send = post_send;
  context->ops.post_recv = post_recv;
  context->async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (faults.other_subnet) context->subnet = next_subnet++;
  contexts.insert(context);
  return context;
}
EXPORTED int ibv_close_device(ibv::Context* context) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto* opened = static_cast<Open*>(context);
  contexts.erase(opened);
  events_open -= static_cast<int>(opened->events.size());
  close(opened->async_fd);
  delete opened;
  return 0;
}
EXPORTED int ibv_query_port(ibv::Context*, uint8_t port, ibv::PortAttr* attr) {
  if (port != 1) return EINVAL;
  const std::lock_guard<std::mutex> lock(mutex);
  *attr = ibv::PortAttr{};
  attr->state = faults.port_down ? 1 : static_cast<int>(ibv::kPortActive);
  attr->active_mtu = faults.mtu;
  attr->gid_tbl_len = faults.infiniband ? 1 : 4;
  attr->lid = faults.infiniband ? kLid : 0;
  attr->link_layer = faults.infiniband ? ibv::kLinkInfiniband : ibv::kLinkEthernet;
  return 0;
}
EXPORTED int _ibv_query_gid_ex(ibv::Context* context, uint32_t, uint32_t index, ibv::GidEntry* entry, uint32_t,
                               size_t) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (index > (faults.infiniband ? 0U : 3U)) return ENODATA;
  *entry = ibv::GidEntry{};
  entry->gid = gid_of(*static_cast<Open*>(context), index);
  const bool below = faults.macvlan && context->device == &mlx5[0] && index < 2;
  entry->ndev_ifindex = !faults.macvlan ? 0 : below ? 2 : 7;
  entry->gid_type = faults.infiniband ? ibv::kGidInfiniband : index % 2 == 0 ? ibv::kGidRoceV1 : ibv::kGidRoceV2;
  return 0;
}
EXPORTED ibv::Pd* ibv_alloc_pd(ibv::Context* context) { return new ibv::Pd{context, 0}; }
EXPORTED int ibv_dealloc_pd(ibv::Pd* pd) {
  delete pd;
  return 0;
}
EXPORTED ibv::Mr* ibv_reg_mr(ibv::Pd* pd, void* address, size_t length, int access) {
  const std::lock_guard<std::mutex> lock(mutex);
  const bool full = faults.registrations == 0;
  if (faults.registrations > 0) --faults.registrations;
  if (full || (faults.fail_registration > 0 && --faults.fail_registration == 0)) {
    errno = ENOMEM;
    return nullptr;
  }
  const uint32_t key = next_number++ * 2654435761U;
  auto* region = new ibv::Mr{pd->context, pd, address, length, 0, key, key};
  regions[key] = region;
  rights[key] = access;
  auto* context = static_cast<Open*>(pd->context);
  context->pinned += static_cast<long>(length);
  most_pinned = std::max(most_pinned, context->pinned);
  return region;
}
EXPORTED int ibv_dereg_mr(ibv::Mr* region) {
  const std::lock_guard<std::mutex> lock(mutex);
  regions.erase(region->rkey);
  static_cast<Open*>(region->context)->pinned -= static_cast<long>(region->length);
  rights.erase(region->rkey);
  delete region;
  return 0;
}
EXPORTED ibv::CompChannel* ibv_create_comp_channel(ibv::Context* context) {
  return new ibv::CompChannel{context, eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC), 0};
}
EXPORTED int ibv_destroy_comp_channel(ibv::CompChannel* channel) {
  close(channel->fd);
  delete channel;
  return 0;
}
EXPORTED ibv::Cq* ibv_create_cq(ibv::Context* context, int, void*, ibv::CompChannel* channel, int) {
  auto* cq = new Completions();
  cq->context = context;
  cq->channel = channel;
  return cq;
}
EXPORTED int ibv_destroy_cq(ibv::Cq* cq) {
  delete static_cast<Completions*>(cq);
  return 0;
}
EXPORTED int ibv_get_cq_event(ibv::CompChannel* channel, ibv::Cq**, void**) {
  uint64_t one = 0;
  return read(channel->fd, &one, sizeof one) == sizeof one ? 0 : -1;
}
EXPORTED void ibv_ack_cq_events(ibv::Cq*, unsigned) {}
EXPORTED ibv::Qp* ibv_create_qp(ibv::Pd* pd, ibv::QpInitAttr* attr) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (faults.refuse_inline && attr->cap.max_inline_data > 0) {
    errno = EINVAL;
    return nullptr;
  }
  auto* pair = new Pair();
  pair->context = pd->context;
  pair->pd = pd;
  pair->send_cq = attr->send_cq;
  pair->recv_cq = attr->recv_cq;
  pair->most_inline = attr->cap.max_inline_data;
  pair->qp_num = ++pair_numbers[pd->context->device];
  pairs[PairName(pd->context->device, pair->qp_num)] = pair;
  return pair;
}
EXPORTED int ibv_modify_qp(ibv::Qp* qp, ibv::QpAttr* attr, int) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto* pair = static_cast<Pair*>(qp);
  if (attr->qp_state == ibv::kQpReadyToReceive) {
    const auto peer = pairs.find(PairName(qp->context->device, attr->dest_qp_num));
    if (faults.unreachable || peer == pairs.end() || !leads(*pair, *peer->second, attr->ah_attr)) return ETIMEDOUT;
    pair->peer = attr->dest_qp_num;
    pair->packet = attr->path_mtu;
  }
  if (attr->qp_state == ibv::kQpReadyToSend) pair->retries = attr->retry_cnt;
  qp->state = attr->qp_state;
  return 0;
}
EXPORTED int ibv_destroy_qp(ibv::Qp* qp) {
  const std::lock_guard<std::mutex> lock(mutex);
  pairs.erase(PairName(qp->context->device, qp->qp_num));
  delayed_works -= static_cast<long>(static_cast<Pair*>(qp)->delayed.size());
  delete static_cast<Pair*>(qp);
  return 0;
}
EXPORTED int ibv_get_async_event(ibv::Context* context, ibv::AsyncEvent* event) {
  uint64_t one = 0;
  if (read(context->async_fd, &one, sizeof one) != sizeof one) return -1;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& events = static_cast<Open*>(context)->events;
  *event = events.front();
  events.pop_front();
  return 0;
}
EXPORTED void ibv_ack_async_event(ibv::AsyncEvent*) {
  const std::lock_guard<std::mutex> lock(mutex);
  --events_open;
}
EXPORTED const char* ibv_wc_status_str(int status) {
  static const char* const kTexts[] = {"success",
                                       "local length error",
                                       "local QP operation error",
                                       "local EE context operation error",
                                       "local protection error",
                                       "Work Request Flushed Error",
                                       "memory bind operation error",
                                       "bad response error",
                                       "local access error",
                                       "remote invalid request error",
                                       "remote access error",
                                       "remote operation error",
                                       "transport retry counter exceeded",
                                       "RNR retry counter exceeded",
                                       "local RDD violation error",
                                       "remote invalid RD request",
                                       "aborted error",
                                       "invalid EE context number",
                                       "invalid EE context state",
                                       "fatal error",
                                       "response timeout error",
                                       "general error"};
  return status >= 0 && status < 22 ? kTexts[status] : "unknown";
}
EXPORTED const char* ibv_event_type_str(int event) {
  return event == ibv::kEventPortError     ? "port error"
         : event == ibv::kEventDeviceFatal ? "local catastrophic error"
         : event == ibv::kEventPortActive  ? "port active"
         : event == kEventGidChange        ? "GID table change"
                                           : "event";
}
