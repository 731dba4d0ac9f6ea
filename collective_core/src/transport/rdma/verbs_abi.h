// The part of libibverbs' ABI that this transport uses, as rdma-core has kept it since version 1.1 of the library.
//
// Machines that build wheels lack rdma-core's headers, and most hosts that install one lack libibverbs. So the
// declarations are here. Names are those of <infiniband/verbs.h> without "ibv_"; tests/core/native/rdma.cc compares
// both where that header exists.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace ccore::ibv {

union Gid {
  uint8_t raw[16];
  uint64_t words[2];  // subnet prefix, interface id; big-endian
};

enum GidType : uint32_t { kGidInfiniband = 0, kGidRoceV1 = 1, kGidRoceV2 = 2 };

struct GidEntry {
  Gid gid;
  uint32_t gid_index;
  uint32_t port_num;
  uint32_t gid_type;
  uint32_t ndev_ifindex;
};

enum TransportType : int { kTransportInfiniband = 0, kTransportIwarp = 1 };
enum LinkLayer : uint8_t { kLinkInfiniband = 1, kLinkEthernet = 2 };
enum PortState : int { kPortActive = 4 };

struct Device {
  void* dummy[2];
  int node_type;
  int transport_type;
  char name[64];
  char dev_name[64];
  char dev_path[256];
  char ibdev_path[256];
};

struct PortAttr {
  int state;
  int max_mtu;
  int active_mtu;
  int gid_tbl_len;
  uint32_t port_cap_flags;
  uint32_t max_msg_sz;
  uint32_t bad_pkey_cntr;
  uint32_t qkey_viol_cntr;
  uint16_t pkey_tbl_len;
  uint16_t lid;
  uint16_t sm_lid;
  uint8_t lmc;
  uint8_t max_vl_num;
  uint8_t sm_sl;
  uint8_t subnet_timeout;
  uint8_t init_type_reply;
  uint8_t active_width;
  uint8_t active_speed;
  uint8_t phys_state;
  uint8_t link_layer;
  uint8_t flags;
  uint16_t port_cap_flags2;
};

enum EventType : int {
  kEventQpFatal = 1,
  kEventQpAccess = 3,
  kEventEstablished = 4,
  kEventDrained = 5,
  kEventDeviceFatal = 8,
  kEventPortActive = 9,
  kEventPortError = 10
};

struct AsyncEvent {
  union {
    void* pointer;
    int port_num;
  } element;
  int event_type;
};

enum WcStatus : int {
  kWcSuccess = 0,
  kWcFlushed = 5,
  kWcRemoteAccess = 10,
  kWcRetriesExceeded = 12,
  kWcReceiverNotReady = 13
};
// The completion of a receive has this bit.
constexpr int kWcReceive = 1 << 7;

struct Wc {
  uint64_t wr_id;
  int status;
  int opcode;
  uint32_t vendor_err;
  uint32_t byte_len;
  uint32_t imm_data;  // big-endian
  uint32_t qp_num;
  uint32_t src_qp;
  unsigned wc_flags;
  uint16_t pkey_index;
  uint16_t slid;
  uint8_t sl;
  uint8_t dlid_path_bits;
};

struct Context;

struct Pd {
  Context* context;
  uint32_t handle;
};

struct Mr {
  Context* context;
  Pd* pd;
  void* addr;
  size_t length;
  uint32_t handle;
  uint32_t lkey;
  uint32_t rkey;
};

struct CompChannel {
  Context* context;
  int fd;
  int refcnt;
};

struct Cq {
  Context* context;
  CompChannel* channel;
  void* cq_context;
  uint32_t handle;
  int cqe;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  uint32_t comp_events_completed;
  uint32_t async_events_completed;
};

enum QpType : int { kQpReliable = 2 };
enum QpState : int { kQpInit = 1, kQpReadyToReceive = 2, kQpReadyToSend = 3, kQpError = 6 };

struct Qp {
  Context* context;
  void* qp_context;
  Pd* pd;
  Cq* send_cq;
  Cq* recv_cq;
  void* srq;
  uint32_t handle;
  uint32_t qp_num;
  int state;
  int qp_type;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  uint32_t events_completed;
};

struct QpCap {
  uint32_t max_send_wr;
  uint32_t max_recv_wr;
  uint32_t max_send_sge;
  uint32_t max_recv_sge;
  uint32_t max_inline_data;
};

struct QpInitAttr {
  void* qp_context;
  Cq* send_cq;
  Cq* recv_cq;
  void* srq;
  QpCap cap;
  int qp_type;
  int sq_sig_all;
};

struct GlobalRoute {
  Gid dgid;
  uint32_t flow_label;
  uint8_t sgid_index;
  uint8_t hop_limit;
  uint8_t traffic_class;
};

struct AhAttr {
  GlobalRoute grh;
  uint16_t dlid;
  uint8_t sl;
  uint8_t src_path_bits;
  uint8_t static_rate;
  uint8_t is_global;
  uint8_t port_num;
};

enum QpAttrMask : int {
  kQpState = 1 << 0,
  kQpAccessFlags = 1 << 3,
  kQpPkeyIndex = 1 << 4,
  kQpPort = 1 << 5,
  kQpAv = 1 << 7,
  kQpPathMtu = 1 << 8,
  kQpTimeout = 1 << 9,
  kQpRetryCount = 1 << 10,
  kQpRnrRetry = 1 << 11,
  kQpRqPsn = 1 << 12,
  kQpMaxReadAtomic = 1 << 13,
  kQpMinRnrTimer = 1 << 15,
  kQpSqPsn = 1 << 16,
  kQpMaxDestReadAtomic = 1 << 17,
  kQpDestination = 1 << 20,
};

struct QpAttr {
  int qp_state;
  int cur_qp_state;
  int path_mtu;
  int path_mig_state;
  uint32_t qkey;
  uint32_t rq_psn;
  uint32_t sq_psn;
  uint32_t dest_qp_num;
  unsigned qp_access_flags;
  QpCap cap;
  AhAttr ah_attr;
  AhAttr alt_ah_attr;
  uint16_t pkey_index;
  uint16_t alt_pkey_index;
  uint8_t en_sqd_async_notify;
  uint8_t sq_draining;
  uint8_t max_rd_atomic;
  uint8_t max_dest_rd_atomic;
  uint8_t min_rnr_timer;
  uint8_t port_num;
  uint8_t timeout;
  uint8_t retry_cnt;
  uint8_t rnr_retry;
  uint8_t alt_port_num;
  uint8_t alt_timeout;
  uint32_t rate_limit;
};

enum AccessFlags : int { kAccessLocalWrite = 1, kAccessRemoteWrite = 2 };
enum WrOpcode : int { kWrite = 0, kWriteWithImmediate = 1 };
enum SendFlags : unsigned { kSendSignaled = 1 << 1, kSendInline = 1 << 3 };

struct Sge {
  uint64_t addr;
  uint32_t length;
  uint32_t lkey;
};

struct SendWr {
  uint64_t wr_id;
  SendWr* next;
  Sge* sg_list;
  int num_sge;
  int opcode;
  unsigned send_flags;
  uint32_t imm_data;  // big-endian
  union {
    struct {
      uint64_t remote_addr;
      uint32_t rkey;
    } rdma;
    struct {
      uint64_t remote_addr;
      uint64_t compare_add;
      uint64_t swap;
      uint32_t rkey;
    } atomic;
  } wr;
  uint64_t other_types[7];  // of queue pairs and of operations
};

struct RecvWr {
  uint64_t wr_id;
  RecvWr* next;
  Sge* sg_list;
  int num_sge;
};

// The calls that libibverbs' own header makes inline, through the provider's table.
struct ContextOps {
  void* before_poll_cq[11];
  int (*poll_cq)(Cq* cq, int num_entries, Wc* wc);
  int (*req_notify_cq)(Cq* cq, int solicited_only);
  void* before_post_send[12];
  int (*post_send)(Qp* qp, SendWr* wr, SendWr** bad_wr);
  int (*post_recv)(Qp* qp, RecvWr* wr, RecvWr** bad_wr);
  void* after_post_recv[5];
};

struct Context {
  Device* device;
  ContextOps ops;
  int cmd_fd;
  int async_fd;
  int num_comp_vectors;
  pthread_mutex_t mutex;
  void* abi_compat;
};

}  // namespace ccore::ibv
