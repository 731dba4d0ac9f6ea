#include "real_nccl.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace ccore_nccl {
namespace {

constexpr const char* kSoname = "libnccl.so.2";

void* open_nccl() {
  // Python loads torch's NCCL without RTLD_GLOBAL, so that the global search does not find it.
  if (void* loaded = dlopen(kSoname, RTLD_NOW | RTLD_NOLOAD)) return loaded;
  const char* path = std::getenv("CCORE_NCCL_PATH");
  void* opened = dlopen(path != nullptr && *path != '\0' ? path : kSoname, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    std::fprintf(stderr, "collective_core: libnccl.so.2 cannot be loaded (%s); install NCCL, or set CCORE_NCCL_PATH\n",
                 dlerror());
  }
  return opened;
}

template <class Function>
void find(Function* function, const char* name) {
  *function = reinterpret_cast<Function>(find_in_nccl(name));
}

RealNccl find_all() {
  RealNccl found{};
  find(&found.all_reduce, "ncclAllReduce");
  find(&found.all_gather, "ncclAllGather");
  find(&found.reduce_scatter, "ncclReduceScatter");
  find(&found.broadcast, "ncclBroadcast");
  find(&found.send, "ncclSend");
  find(&found.recv, "ncclRecv");
  find(&found.group_start, "ncclGroupStart");
  find(&found.group_end, "ncclGroupEnd");
  find(&found.group_simulate_end, "ncclGroupSimulateEnd");
  find(&found.comm_init_rank, "ncclCommInitRank");
  find(&found.comm_init_rank_config, "ncclCommInitRankConfig");
  find(&found.comm_init_rank_scalable, "ncclCommInitRankScalable");
  find(&found.comm_split, "ncclCommSplit");
  find(&found.comm_destroy, "ncclCommDestroy");
  find(&found.comm_abort, "ncclCommAbort");
  find(&found.comm_count, "ncclCommCount");
  find(&found.comm_user_rank, "ncclCommUserRank");
  find(&found.comm_cu_device, "ncclCommCuDevice");
  find(&found.comm_get_async_error, "ncclCommGetAsyncError");
  find(&found.get_last_error, "ncclGetLastError");
  find(&found.get_version, "ncclGetVersion");
  return found;
}

}  // namespace

void* find_in_nccl(const char* name) {
  if (void* next = dlsym(RTLD_NEXT, name)) return next;
  static void* const library = open_nccl();
  return library == nullptr ? nullptr : dlsym(library, name);
}

const RealNccl& real() {
  static const RealNccl found = find_all();
  return found;
}

}  // namespace ccore_nccl
