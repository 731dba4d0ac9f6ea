// libibverbs, loaded when a communicator first asks for RDMA: hosts without it run the same binary over TCP.
#pragma once

#include <string>

#include "transport/rdma/verbs_abi.h"

namespace ccore {

// The functions that the library exports; the others are in ibv::ContextOps.
struct Verbs {
  int (*fork_init)();
  ibv::Device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv::Device** list);
  ibv::Context* (*open_device)(ibv::Device* device);
  int (*close_device)(ibv::Context* context);
  int (*query_port)(ibv::Context* context, uint8_t port, ibv::PortAttr* attr);
  int (*query_gid_ex)(ibv::Context* context, uint32_t port, uint32_t index, ibv::GidEntry* entry, uint32_t flags,
                      size_t entry_size);
  ibv::Pd* (*alloc_pd)(ibv::Context* context);
  int (*dealloc_pd)(ibv::Pd* pd);
  ibv::Mr* (*reg_mr)(ibv::Pd* pd, void* addr, size_t length, int access);
  int (*dereg_mr)(ibv::Mr* mr);
  ibv::CompChannel* (*create_comp_channel)(ibv::Context* context);
  int (*destroy_comp_channel)(ibv::CompChannel* channel);
  ibv::Cq* (*create_cq)(ibv::Context* context, int cqe, void* cq_context, ibv::CompChannel* channel, int comp_vector);
  int (*destroy_cq)(ibv::Cq* cq);
  int (*get_cq_event)(ibv::CompChannel* channel, ibv::Cq** cq, void** cq_context);
  void (*ack_cq_events)(ibv::Cq* cq, unsigned count);
  ibv::Qp* (*create_qp)(ibv::Pd* pd, ibv::QpInitAttr* attr);
  int (*modify_qp)(ibv::Qp* qp, ibv::QpAttr* attr, int mask);
  int (*destroy_qp)(ibv::Qp* qp);
  int (*get_async_event)(ibv::Context* context, ibv::AsyncEvent* event);
  void (*ack_async_event)(ibv::AsyncEvent* event);
  const char* (*wc_status_str)(int status);
  const char* (*event_type_str)(int event);
};

// The library of CCORE_IBVERBS_LIBRARY, by default libibverbs.so.1; it stays loaded. Throws CC_ERROR_SYSTEM with the
// loader's reason, or with the function that the library lacks.
const Verbs& verbs();

}  // namespace ccore
