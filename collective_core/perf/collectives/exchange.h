// Sending to one rank and receiving as much from another at the same time.
#pragma once

#include "collective.h"

namespace ccore_perf {

struct Exchange {
  const void* send;
  int to;
  void* recv;
  int from;
  size_t count;
};

inline cc_result run_exchange(const Exchange& exchange, cc_dtype dtype, cc_comm* comm) {
  const cc_result opened = cc_group_start(comm);
  if (opened != CC_SUCCESS) return opened;
  const cc_result sent = cc_send(exchange.send, exchange.count, dtype, exchange.to, comm, nullptr);
  const cc_result received = cc_recv(exchange.recv, exchange.count, dtype, exchange.from, comm, nullptr);
  const cc_result ended = cc_group_end(comm);
  if (sent != CC_SUCCESS) return sent;
  return received != CC_SUCCESS ? received : ended;
}

}  // namespace ccore_perf
