#include "transport/rdma/verbs.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

#include "common/env.h"
#include "common/error.h"
#include "common/log.h"

namespace ccore {
namespace {

// rdma-core 32 is the first whose libibverbs tells the type of a GID.
constexpr char kTooOld[] = "; expected rdma-core 32 or newer";

void* symbol(void* library, const std::string& path, const char* name) {
  // A library may export an older variant of the same name, so the version counts.
  for (const char* version : {"IBVERBS_1.1", "IBVERBS_1.11"}) {
    if (void* found = dlvsym(library, name, version)) return found;
  }
  if (void* found = dlsym(library, name)) return found;
  throw Error(CC_ERROR_SYSTEM, path + " has no " + name + kTooOld);
}

Verbs load(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    throw Error(CC_ERROR_SYSTEM, std::string("cannot load libibverbs: ") + (why ? why : path.c_str()));
  }
  Verbs table{};
  const auto take = [&](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_reference_t<decltype(*function)>>(symbol(library, path, name));
  };
  take(&table.fork_init, "ibv_fork_init");
  take(&table.get_device_list, "ibv_get_device_list");
  take(&table.free_device_list, "ibv_free_device_list");
  take(&table.open_device, "ibv_open_device");
  take(&table.close_device, "ibv_close_device");
  take(&table.query_port, "ibv_query_port");
  take(&table.query_gid_ex, "_ibv_query_gid_ex");
  take(&table.alloc_pd, "ibv_alloc_pd");
  take(&table.dealloc_pd, "ibv_dealloc_pd");
  take(&table.reg_mr, "ibv_reg_mr");
  take(&table.dereg_mr, "ibv_dereg_mr");
  take(&table.create_comp_channel, "ibv_create_comp_channel");
  take(&table.destroy_comp_channel, "ibv_destroy_comp_channel");
  take(&table.create_cq, "ibv_create_cq");
  take(&table.destroy_cq, "ibv_destroy_cq");
  take(&table.get_cq_event, "ibv_get_cq_event");
  take(&table.ack_cq_events, "ibv_ack_cq_events");
  take(&table.create_qp, "ibv_create_qp");
  take(&table.modify_qp, "ibv_modify_qp");
  take(&table.destroy_qp, "ibv_destroy_qp");
  take(&table.get_async_event, "ibv_get_async_event");
  take(&table.ack_async_event, "ibv_ack_async_event");
  take(&table.wc_status_str, "ibv_wc_status_str");
  take(&table.event_type_str, "ibv_event_type_str");
  // Before Linux 5.12, a fork moves this process to copies of the provider's queues, which the device does not see.
  // There, libibverbs hides such memory from the child; later kernels copy it for the child, and from rdma-core 35 on
  // the call then does nothing.
  const int error = table.fork_init();
  if (error != 0) {
    log(LogLevel::warn, "RDMA may stop if this process forks: ibv_fork_init: %s; set RDMAV_FORK_SAFE=1",
        errno_text(error).c_str());
  }
  return table;
}

}  // namespace

const Verbs& verbs() {
  static std::mutex mutex;
  static std::map<std::string, Verbs> loaded;
  const std::string named = env_text("CCORE_IBVERBS_LIBRARY");
  const std::string path = named.empty() ? "libibverbs.so.1" : named;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = loaded.find(path);
  return found != loaded.end() ? found->second : loaded.emplace(path, load(path)).first->second;
}

}  // namespace ccore
