// The C ABI of a communicator: its life, what it is, has done and is doing, and its tuner.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "api/device.h"
#include "api/support.h"
#include "collective_core/collective_core.h"
#include "common/clock.h"
#include "common/dtype.h"
#include "engine/settings_text.h"
#include "engine/split.h"
#include "rendezvous/launch.h"

using ccore::guarded;
using ccore::require;

namespace {

// As many as there is room for; each as much as the caller knows of it.
template <typename Entry>
void copy_entries(const std::vector<Entry>& all, Entry* entries, size_t entry_bytes, size_t room) {
  const size_t bytes = std::min(entry_bytes, sizeof(Entry));
  auto* to = reinterpret_cast<std::byte*>(entries);
  for (size_t i = 0; i < std::min(room, all.size()); ++i) {
    Entry entry = all[i];
    entry.size = bytes;
    std::memcpy(to + i * entry_bytes, &entry, bytes);
  }
}

ccore::ToldSettings told_settings_of(const cc_comm* comm) {
  return comm ? comm->communicator.told_settings() : ccore::ToldSettings();
}

}  // namespace

extern "C" {

cc_result cc_get_launch(cc_launch* launch) {
  return guarded([&] {
    require(launch != nullptr, "launch is null");
    require(launch->size >= sizeof(size_t), "cc_launch.size is not set");
    const ccore::Launch found = ccore::launch_of_process();
    cc_launch full{};
    full.size = std::min(launch->size, sizeof full);
    full.rank = found.rank;
    full.nranks = found.size;
    full.local_size = found.local_size;
    std::strncpy(full.launcher, found.launcher, sizeof full.launcher - 1);
    std::memcpy(launch, &full, full.size);
  });
}

cc_result cc_comm_init(cc_comm** comm, const cc_config* config) {
  if (comm) *comm = nullptr;
  return guarded([&] {
    require(comm != nullptr, "comm is null");
    const ccore::Settings settings = ccore::settings_from(config);
    const ccore::Launch launch = ccore::launch_of_process();
    const ccore::UniqueId id = ccore::meet(launch, ccore::Deadline::in_ms(settings.init_timeout_ms));
    *comm = new cc_comm(id, launch.rank, launch.size, settings);
  });
}

cc_result cc_comm_init_rank(cc_comm** comm, int nranks, const cc_unique_id* id, int rank, const cc_config* config) {
  if (comm) *comm = nullptr;
  return guarded([&] {
    require(comm && id, "an argument is null");
    require(nranks >= 1, "nranks must be at least 1");
    require(rank >= 0 && rank < nranks, "rank must be from 0 to nranks - 1");
    *comm = new cc_comm(ccore::decode(*id), rank, nranks, ccore::settings_from(config));
  });
}

cc_result cc_comm_destroy(cc_comm* comm) {
  return guarded([&] { delete comm; });
}

cc_result cc_comm_abort(cc_comm* comm) {
  return guarded([&] {
    require(comm != nullptr, "comm is null");
    comm->communicator.abort("cc_comm_abort was called on rank " + std::to_string(comm->communicator.rank()));
    comm->device->abort();
  });
}

cc_result cc_comm_split(cc_comm* comm, int color, int key, const cc_config* config, cc_comm** part) {
  if (part) *part = nullptr;
  return guarded([&] {
    require(comm && part, "an argument is null");
    require(color >= 0 || color == CC_SPLIT_NOCOLOR, "color is negative and not CC_SPLIT_NOCOLOR");
    const auto seat = ccore::split(&comm->communicator, ccore::SplitWish{color, key}, config);
    if (seat) *part = new cc_comm(seat->id, seat->rank, seat->nranks, seat->settings);
  });
}

cc_result cc_comm_finalize(cc_comm* comm, const cc_op_options* options) {
  return guarded([&] {
    require(comm != nullptr, "comm is null");
    comm->communicator.finalize(ccore::timeout_of(options));
  });
}

cc_result cc_comm_get_async_error(const cc_comm* comm, cc_result* state) {
  return guarded([&] {
    require(comm && state, "an argument is null");
    comm->device->poll();
    const cc_result failed = comm->communicator.failure().code();
    *state = failed == CC_SUCCESS && comm->communicator.busy() ? CC_IN_PROGRESS : failed;
  });
}

cc_result cc_comm_rank(const cc_comm* comm, int* rank) {
  return guarded([&] {
    require(comm && rank, "an argument is null");
    *rank = comm->communicator.rank();
  });
}

cc_result cc_comm_size(const cc_comm* comm, int* nranks) {
  return guarded([&] {
    require(comm && nranks, "an argument is null");
    *nranks = comm->communicator.size();
  });
}

cc_result cc_comm_peer_info(const cc_comm* comm, int rank, cc_peer_info* info) {
  return guarded([&] {
    require(comm && info, "an argument is null");
    require(rank >= 0 && rank < comm->communicator.size(), "no such rank");
    require(info->size >= sizeof(size_t), "cc_peer_info.size is not set");
    comm->communicator.fill(rank, info);
  });
}

cc_result cc_comm_stats(const cc_comm* comm, cc_operation operation, cc_op_stats* stats) {
  return guarded([&] {
    require(comm && stats, "an argument is null");
    require(stats->size >= sizeof(size_t), "cc_op_stats.size is not set");
    require(operation > 0 && operation <= CC_OPERATION_LAST, "operation is not one of cc_operation");
    cc_op_stats full = comm->communicator.recorder().stats(operation);
    full.size = std::min(stats->size, sizeof full);
    std::memcpy(stats, &full, full.size);
  });
}

cc_result cc_comm_trace(const cc_comm* comm, cc_trace_entry* entries, size_t entry_bytes, size_t* count) {
  return guarded([&] {
    require(comm && count, "an argument is null");
    require(entries || *count == 0, "entries is null");
    require(entry_bytes >= sizeof(size_t), "entry_bytes is not the size of an entry");
    std::vector<cc_trace_entry> recent = comm->communicator.recorder().recent();
    // The newest ones, if there is not room for all.
    if (recent.size() > *count) recent.erase(recent.begin(), recent.end() - static_cast<std::ptrdiff_t>(*count));
    *count = recent.size();
    copy_entries(recent, entries, entry_bytes, recent.size());
  });
}

cc_result cc_comm_counts(const cc_comm* comm, cc_count* counts, size_t entry_bytes, size_t* count) {
  return guarded([&] {
    require(comm && count, "an argument is null");
    require(counts || *count == 0, "counts is null");
    require(entry_bytes >= sizeof(size_t), "entry_bytes is not the size of an entry");
    const std::vector<cc_count> all = comm->communicator.recorder().counts();
    copy_entries(all, counts, entry_bytes, *count);
    *count = all.size();
  });
}

cc_result cc_get_settings(const cc_comm* comm, cc_setting* settings, size_t entry_bytes, size_t* count) {
  return guarded([&] {
    require(count != nullptr, "count is null");
    require(settings || *count == 0, "settings is null");
    require(entry_bytes >= sizeof(size_t), "entry_bytes is not the size of an entry");
    const std::vector<cc_setting> all = ccore::all_settings(told_settings_of(comm));
    copy_entries(all, settings, entry_bytes, *count);
    *count = all.size();
  });
}

cc_result cc_get_limits(const cc_comm* comm, cc_limits* limits) {
  return guarded([&] {
    require(comm && limits, "an argument is null");
    require(limits->size >= sizeof(size_t), "cc_limits.size is not set");
    comm->communicator.fill(limits);
  });
}

cc_result cc_describe(cc_comm* comm, cc_operation operation, size_t count, cc_dtype dtype, cc_memory memory,
                      cc_description* description) {
  return guarded([&] {
    require(comm && description, "an argument is null");
    require(description->size >= sizeof(size_t), "cc_description.size is not set");
    require(operation > 0 && operation < CC_OPERATION_LAST, "operation is not a collective of cc_operation");
    const size_t element = ccore::dtype_size(dtype);
    require(element != 0, "unknown dtype");
    require(count <= SIZE_MAX / element, "count is too large");
    ccore::Operation described;
    described.kind = static_cast<ccore::Kind>(operation);
    described.count = count;
    described.dtype = dtype;
    require(memory >= CC_MEMORY_AUTO && memory <= CC_MEMORY_DEVICE, "memory is not one of cc_memory");
    cc_description full = comm->communicator.description_of(described);
    if (memory == CC_MEMORY_DEVICE) comm->device->describe(described, &full);
    full.size = std::min(description->size, sizeof full);
    std::memcpy(description, &full, full.size);
  });
}

cc_result cc_dump_config(const cc_comm* comm, char* text, size_t size, size_t* needed) {
  return guarded([&] { ccore::copy_text(ccore::settings_text(told_settings_of(comm)), text, size, needed); });
}

cc_result cc_tuner_dump(cc_comm* comm, char* text, size_t size, size_t* needed) {
  return guarded([&] {
    require(comm && needed, "an argument is null");
    require(text || size == 0, "text is null");
    ccore::copy_text(comm->communicator.tuner_text(), text, size, needed);
  });
}

cc_result cc_tuner_retune(cc_comm* comm) {
  return guarded([&] {
    require(comm != nullptr, "comm is null");
    comm->communicator.retune();
  });
}

cc_result cc_tuner_set(cc_comm* comm, const char* collective, size_t bytes, cc_dtype dtype, const char* algorithm) {
  return guarded([&] {
    require(comm && collective && algorithm, "an argument is null");
    require(ccore::dtype_size(dtype) != 0, "unknown dtype");
    require(bytes > 0, "bytes is 0");
    comm->communicator.set_algorithm(comm->communicator.choice_of(collective, bytes, dtype, algorithm));
  });
}

}  // extern "C"
