// The C ABI: what a communicator is, has done and is doing.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "api_support.h"
#include "engine/settings_text.h"

extern "C" {

cc_result cc_comm_get_async_error(const cc_comm* comm, cc_result* state) {
  return ccore::guarded([&] {
    ccore::require(comm && state, "an argument is null");
    const cc_result failed = comm->communicator.failure().code();
    *state = failed == CC_SUCCESS && comm->communicator.busy() ? CC_IN_PROGRESS : failed;
  });
}

cc_result cc_comm_rank(const cc_comm* comm, int* rank) {
  return ccore::guarded([&] {
    ccore::require(comm && rank, "an argument is null");
    *rank = comm->communicator.rank();
  });
}

cc_result cc_comm_size(const cc_comm* comm, int* nranks) {
  return ccore::guarded([&] {
    ccore::require(comm && nranks, "an argument is null");
    *nranks = comm->communicator.size();
  });
}

cc_result cc_comm_peer_info(const cc_comm* comm, int rank, cc_peer_info* info) {
  return ccore::guarded([&] {
    ccore::require(comm && info, "an argument is null");
    ccore::require(rank >= 0 && rank < comm->communicator.size(), "no such rank");
    ccore::require(info->size >= sizeof(size_t), "cc_peer_info.size is not set");
    comm->communicator.fill(rank, info);
  });
}

cc_result cc_comm_stats(const cc_comm* comm, cc_operation operation, cc_op_stats* stats) {
  return ccore::guarded([&] {
    ccore::require(comm && stats, "an argument is null");
    ccore::require(stats->size >= sizeof(size_t), "cc_op_stats.size is not set");
    ccore::require(operation > 0 && operation <= CC_OPERATION_LAST, "operation is none of cc_operation");
    cc_op_stats full = comm->communicator.recorder().stats(operation);
    full.size = std::min(stats->size, sizeof full);
    std::memcpy(stats, &full, full.size);
  });
}

cc_result cc_comm_trace(const cc_comm* comm, cc_trace_entry* entries, size_t entry_bytes, size_t* count) {
  return ccore::guarded([&] {
    ccore::require(comm && count, "an argument is null");
    ccore::require(entries || *count == 0, "entries is null");
    ccore::require(entry_bytes >= sizeof(size_t), "entry_bytes is not the size of an entry");
    const auto recent = comm->communicator.recorder().recent();
    const size_t room = std::min(*count, recent.size());
    const size_t bytes = std::min(entry_bytes, sizeof(cc_trace_entry));
    auto* to = reinterpret_cast<std::byte*>(entries);
    for (size_t i = 0; i < room; ++i) {
      // The newest ones, if there is not room for all.
      cc_trace_entry entry = recent[recent.size() - room + i];
      entry.size = bytes;
      std::memcpy(to + i * entry_bytes, &entry, bytes);
    }
    *count = room;
  });
}

cc_result cc_dump_config(const cc_comm* comm, char* text, size_t size, size_t* needed) {
  return ccore::guarded([&] {
    ccore::copy_text(comm ? comm->communicator.settings_text() : ccore::settings_text({}), text, size, needed);
  });
}

}  // extern "C"
