#include "core_library.h"

#include <dlfcn.h>

namespace ccore_nccl {
namespace {

struct Loaded {
  CoreLibrary functions{};
  std::string problem;
};

std::string own_directory() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&core_library), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

void* open_beside(const char* name, std::string* problem) {
  void* opened = dlopen((own_directory() + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr && problem->empty()) *problem = dlerror();
  return opened;
}

template <class Function>
void find(void* library, Function* function, const char* name, std::string* problem) {
  *function = library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr && problem->empty()) *problem = std::string(name) + " is missing: another version?";
}

Loaded load() {
  Loaded loaded;
  CoreLibrary& to = loaded.functions;
  std::string* problem = &loaded.problem;
  void* host = open_beside("libcollective_core.so", problem);
  void* cuda = open_beside("libcollective_core_cuda.so", problem);
  find(host, &to.get_unique_id, "cc_get_unique_id", problem);
  find(host, &to.comm_init_rank, "cc_comm_init_rank", problem);
  find(host, &to.comm_finalize, "cc_comm_finalize", problem);
  find(host, &to.comm_abort, "cc_comm_abort", problem);
  find(host, &to.comm_destroy, "cc_comm_destroy", problem);
  find(host, &to.last_error, "cc_last_error", problem);
  find(cuda, &to.device_identity, "cc_cuda_device_identity", problem);
  find(cuda, &to.create, "cc_cuda_create", problem);
  find(cuda, &to.get_path, "cc_cuda_get_path", problem);
  find(cuda, &to.describe, "cc_cuda_describe", problem);
  find(cuda, &to.all_reduce, "cc_cuda_all_reduce", problem);
  find(cuda, &to.reduce_scatter, "cc_cuda_reduce_scatter", problem);
  find(cuda, &to.all_gather, "cc_cuda_all_gather", problem);
  find(cuda, &to.broadcast, "cc_cuda_broadcast", problem);
  find(cuda, &to.exchange, "cc_cuda_exchange", problem);
  find(cuda, &to.add_rival, "cc_cuda_add_rival", problem);
  find(cuda, &to.compete, "cc_cuda_compete", problem);
  find(cuda, &to.consult, "cc_cuda_consult", problem);
  find(cuda, &to.poll, "cc_cuda_poll", problem);
  find(cuda, &to.wait, "cc_cuda_wait", problem);
  find(cuda, &to.abort, "cc_cuda_abort", problem);
  find(cuda, &to.destroy, "cc_cuda_destroy", problem);
  find(cuda, &to.cuda_last_error, "cc_cuda_last_error", problem);
  return loaded;
}

const Loaded& loaded() {
  static const auto* const once = new Loaded(load());  // threads of the program may ask during exit
  return *once;
}

}  // namespace

const CoreLibrary* core_library(std::string* why) {
  if (loaded().problem.empty()) return &loaded().functions;
  *why = loaded().problem;
  return nullptr;
}

const CoreLibrary& core() { return loaded().functions; }

}  // namespace ccore_nccl
